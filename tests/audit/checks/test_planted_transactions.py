"""For each check of transactions: a log with the defect, found in its place; the same log without it, silent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kohort.audit.checks.kit.check import ERROR, WARNING
from kohort.audit.run.in_a_test import CHECKS
from kohort.audit.tables import TRANSACTION_LOGS
from tests.audit.checks.audited import Row, check_tables, explain, tables_of
from tests.audit.checks.planted import HOUR, MINUTE, steadily
from tests.audit.checks.test_planted import OF_TRANSACTIONS
from tests.audit.logs import Group, Logs
from tests.audit.transactions import ONGOING, PREPARE_ABORT, TransactionalId

SECOND = 1_000
Plant = Callable[[Logs, bool], dict[str, Any]]

STORIES: dict[str, tuple[str, str, str, Plant]] = {}  # name -> check, severity, words, story


def story(check: str, severity: str, words: str) -> Callable[[Plant], Plant]:
    def remember(tell: Plant) -> Plant:
        STORIES[tell.__name__] = check, severity, words, tell
        return tell

    return remember


def committed(group: Group, offset: int, *, epoch: int) -> int:
    """A transaction from its commit of offsets to the marker."""
    at = group.commit_in_transaction({"t-0": offset}, epoch=epoch)
    group.end_transaction(commit=True, epoch=epoch + 1)
    return at


def until_later(logs: Logs, ms: int) -> None:
    """Another group is at work until then, so that the log ends there."""
    other = logs.group_in(49, "other")
    other.later(ms - 60 * SECOND)
    steadily(other)


# --- offsets ------------------------------------------------------------------------------------------------------


@story("pending_offsets", WARNING, "2 offsets of producer 4000 have waited")
def offsets_wait_for_a_marker_that_does_not_come(logs: Logs, bad: bool) -> dict[str, Any]:
    group = logs.group_in(3)
    committed(group, 10, epoch=0)
    at = group.commit_in_transaction({"t-0": 20}, epoch=1)
    group.commit_in_transaction({"t-1": 20}, epoch=1)
    if not bad:
        group.end_transaction(commit=False, epoch=2)
    until_later(logs, HOUR)
    return {"group_id": group.group_id, "topic": "t", "partition": 0, "log_offset": at, "log_partition": 3}


@story("pending_offsets", WARNING, "1 offset of producer 4000 has waited 15.9 min")
def an_offset_that_waits_for_a_quarter_of_an_hour_counts(logs: Logs, bad: bool) -> dict[str, Any]:
    group = logs.group_in(3)
    group.commit_in_transaction({"t-0": 20})
    until_later(logs, 16 * MINUTE + SECOND if bad else 14 * MINUTE)
    return {"group_id": group.group_id}


@story("pending_offsets", WARNING, "1 offset of producer 4000 has waited")
def an_offset_that_was_deleted_waits_no_longer(logs: Logs, bad: bool) -> dict[str, Any]:
    group = logs.group_in(3)
    group.commit_in_transaction({"t-0": 20})
    if not bad:
        group.tombstone("t-0")
    until_later(logs, HOUR)
    return {"group_id": group.group_id}


# --- fenced producers ---------------------------------------------------------------------------------------------


@story("commit_by_fenced_producer", ERROR, "1 commit of producer 4000 with epoch 1, after epoch 3 had been seen")
def a_producer_commits_after_another_one_has_taken_its_place(logs: Logs, bad: bool) -> dict[str, Any]:
    group = logs.group_in(3)
    committed(group, 10, epoch=0)
    committed(group, 20, epoch=2)
    at = committed(group, 30, epoch=1 if bad else 3)
    return {"group_id": group.group_id, "topic": "t", "partition": 0, "log_offset": at, "log_partition": 3}


@story("commit_by_fenced_producer", ERROR, "1 commit of producer 4000 with epoch 0, after epoch 1 had been seen")
def a_marker_fences_as_well_as_a_commit(logs: Logs, bad: bool) -> dict[str, Any]:
    group = logs.group_in(3)
    group.end_transaction(commit=False, epoch=1)
    at = group.commit_in_transaction({"t-0": 20}, epoch=0 if bad else 1)
    group.end_transaction(commit=False, epoch=2)
    return {"group_id": None, "log_offset": at}


@story("commit_by_fenced_producer", ERROR, "1 commit of producer 4000 with epoch 0, after epoch 5 had been seen")
def epochs_of_different_producers_are_not_compared(logs: Logs, bad: bool) -> dict[str, Any]:
    group = logs.group_in(3)
    for producer_id, epoch in ((3999, 9), (4000, 5), (4001, 0)):
        group.commit_in_transaction({"t-0": 20}, producer_id=producer_id, epoch=epoch)
        group.end_transaction(commit=True, producer_id=producer_id, epoch=epoch)
    if bad:
        committed(group, 25, epoch=0)
    return {"group_id": group.group_id}


# --- transactions -------------------------------------------------------------------------------------------------


@story("hanging_transaction", ERROR, "is open, and was to end 5.9 min ago (timeout 60 s); it holds back t-0, t-1, ")
def a_transaction_is_open_for_longer_than_it_may_be(logs: Logs, bad: bool) -> dict[str, Any]:
    shop = TransactionalId(logs, "shop", log_partition=7)
    shop.write(0)
    shop.write(ONGOING, ["t-0"])
    shop.end(commit=True)
    at = shop.write(ONGOING, ["__consumer_offsets-3", "t-0", "t-1"])
    if not bad:
        shop.end(commit=False)
    until_later(logs, 7 * MINUTE + 3 * SECOND)
    return {"group_id": None, "topic": "t", "partition": 0, "log_offset": at, "log_partition": TRANSACTION_LOGS + 7}


@story("hanging_transaction", ERROR, "of checkout-1 (producer 4000, epoch 0, 1 partition) is open")
def its_timeout_decides(logs: Logs, bad: bool) -> dict[str, Any]:
    shop = TransactionalId(logs, "shop", timeout_ms=MINUTE if bad else HOUR)
    shop.write(ONGOING, ["t-0"], headers=((b"kohort.client", b"checkout-1"),))
    until_later(logs, 30 * MINUTE)
    return {"topic": "t"}


@story("hanging_transaction", ERROR, "(producer 4000, epoch 1, 4 partitions) has been in PrepareCommit for 59")
def a_decided_transaction_never_gets_all_its_markers(logs: Logs, bad: bool) -> dict[str, Any]:
    shop = TransactionalId(logs, "shop")
    shop.write(ONGOING, ["t-0", "t-1", "t-2", "t-3"], version=0)
    shop.end(commit=True, complete=not bad)
    until_later(logs, HOUR - 30 * SECOND)
    return {"topic": "t", "partition": 0}


@story("hanging_transaction", ERROR, "'shop' (producer 4000, epoch 0, 1 partition)")
def an_expired_id_has_no_transaction(logs: Logs, bad: bool) -> dict[str, Any]:
    shop = TransactionalId(logs, "shop")
    shop.write(PREPARE_ABORT, ["t-0"])
    if not bad:
        shop.expire()
    until_later(logs, HOUR)
    return {"topic": "t"}


def audit(folder: Path, name: str, *, bad: bool) -> tuple[list[Row], dict[str, Any]]:
    logs = Logs(folder)
    columns = STORIES[name][3](logs, bad)
    findings, _ = check_tables(tables_of(logs.close()))
    print(explain(findings))
    return findings, columns


@pytest.mark.parametrize("name", list(STORIES))
def test_a_planted_defect_is_found_in_its_place_and_nothing_else_is(tmp_path: Path, name: str) -> None:
    check, severity, words, _ = STORIES[name]
    findings, columns = audit(tmp_path, name, bad=True)
    (found,) = findings
    assert (found["check"], found["severity"]) == (check, severity)
    assert words in found["message"]
    assert {column: found[column] for column in columns} == columns


@pytest.mark.parametrize("name", list(STORIES))
def test_without_the_defect_all_checks_are_silent(tmp_path: Path, name: str) -> None:
    findings, _ = audit(tmp_path, name, bad=False)
    assert findings == []


def test_every_check_of_transactions_has_its_defect_and_is_made_in_tests() -> None:
    assert {check for check, *_ in STORIES.values()} == OF_TRANSACTIONS <= set(CHECKS)
