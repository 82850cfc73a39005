"""Handlers, and what all coordinators have in common, say what they take and give: no `Any` in their signatures."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from importlib import import_module

import pytest

from kohort.broker.api_table import HANDLERS
from kohort.broker.coordinator_host import CoordinatorHost
from kohort.broker.shard_host import ShardHost
from kohort.coordinator import runtime, shard
from kohort.coordinator.group_runtime import GroupRuntime
from kohort.coordinator.group_shard import GroupShard
from kohort.coordinator.share_state.share_shard import ShareShard

CLASSES = (CoordinatorHost, ShardHost, GroupRuntime, runtime.Runtime, GroupShard, ShareShard, shard.Shard, shard.Write)


def methods(kind: type) -> Iterator[tuple[str, Callable[..., object]]]:
    for name, each in vars(kind).items():
        function = each.fget if isinstance(each, property) else each
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
