"""Handlers, and what all coordinators have in common, say what they take and give: no `Any` in their signatures.

And mypy is told to look away in few places.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

import pytest

from kohort.broker.api_table import HANDLERS
from kohort.broker.coordinator_host import CoordinatorHost
from kohort.broker.shard_host import ShardHost
from kohort.broker.share.state_host import ShareStateHost
from kohort.broker.transactions.host import TransactionHost
from kohort.coordinator import runtime, shard
from kohort.coordinator.group_runtime import GroupRuntime
from kohort.coordinator.group_shard import GroupShard
from kohort.coordinator.share_state.share_shard import ShareShard
from kohort.coordinator.transactions.transaction_shard import TransactionShard

HOSTS = (ShardHost, CoordinatorHost, ShareStateHost, TransactionHost)
SHARDS = (shard.Shard, shard.Write, GroupShard, ShareShard, TransactionShard)
CLASSES = (*HOSTS, *SHARDS, runtime.Runtime, GroupRuntime)

ROOT = Path(__file__).parent.parent
PRODUCTION = ("audit", "broker", "client", "coordinator", "protocol", "storage", "testing")
MOST_IGNORED = 12  # remarks for mypy in production code; fewer is better


def methods(kind: type) -> Iterator[tuple[str, Callable[..., object]]]:
    for name, each in vars(kind).items():
        function = each.fget if isinstance(each, property) else getattr(each, "__func__", each)
        if inspect.isfunction(function):
            yield f"{kind.__name__}.{name}", function


def functions_of(module: object) -> Iterator[tuple[str, Callable[..., object]]]:
    for name, each in vars(module).items():
        if inspect.isfunction(each) and each.__module__ == module.__name__:  # type: ignore[attr-defined]
            yield name, each


def vague(functions: Iterator[tuple[str, Callable[..., object]]]) -> list[str]:
    return [name for name, each in functions if "Any" in str(inspect.signature(each))]


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_a_coordinator_names_its_types(kind: type) -> None:
    assert vague(methods(kind)) == []


@pytest.mark.parametrize("module", [runtime, shard], ids=lambda module: module.__name__)
def test_what_helps_a_coordinator_names_its_types(module: object) -> None:
    assert vague(functions_of(module)) == []


@pytest.mark.parametrize("handler", HANDLERS.values(), ids=str)
def test_a_handler_names_its_types(handler: str) -> None:
    path, _, name = handler.partition(":")
    found = getattr(import_module(path), name or path.rpartition(".")[2])
    assert vague(iter([(handler, found)])) == []


def test_few_lines_of_production_code_are_hidden_from_mypy() -> None:
    files = [
        *(ROOT / "src" / "kohort").glob("*.py"),
        *(path for name in PRODUCTION for path in (ROOT / name).rglob("*.py")),
    ]
    lines = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in files
        for line in path.read_text().splitlines()
        if "type: ignore" in line
    ]
    assert len(lines) <= MOST_IGNORED, "\n".join(lines)
