"""Who owned what at a moment, of groups of both kinds."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from kohort.audit.moments import in_words
from kohort.audit.owners.group_history import from_folders
from kohort.audit.owners.time_machine import TimeMachine
from kohort.audit.result import AuditError
from kohort.broker.cli import main
from tests.audit.decode.test_folders import as_nobody
from tests.audit.logs import START, Logs
from tests.audit.new_groups import current_assignment, new_epoch, new_group_deleted, new_member_left
from tests.audit.share_groups import ShareState, assigned, joined, left


def told(machine: TimeMachine, seconds: float) -> list[str]:
    """Each partition in a line, `seconds` after the start."""
    return [
        f"{owner.topic}-{owner.partition} {owner.member_id} since {_seconds(owner.since)}, {owner.since_generation}"
        f" of {owner.generation}, at {owner.offset}"
        for owner in machine.at(START + round(seconds * 1000))
    ]


def _seconds(moment: datetime) -> int:
    return round((moment - datetime.fromtimestamp(START / 1000, UTC)).total_seconds())


def test_owners_of_both_kinds_of_groups(tmp_path: Path) -> None:
    logs = Logs(tmp_path / "data")
    shop = logs.group("shop")
    shop.generation({"m1": ["orders-0", "orders-1"]})  # second 0
    shop.commit({"orders-0": 10, "orders-1": 20}, by="m1")
    shop.generation({"m1": ["orders-0"], "m2": ["orders-1"]})  # 2
    shop.commit({"orders-0": 5, "orders-1": 21})
    shop.tombstone("orders-0")
    shop.generation({"m1": ["orders-0"], "m3": []})  # 5
    shop.empty()
    shop.delete()  # 7
    new = logs.group("new")
    new_epoch(new, {"n1": ["orders-0", "orders-1"]})  # second 0
    new.commit({"orders-0": 7})  # tells which topic has which id
    new_epoch(new, {"n1": ["orders-0"], "n2": []}, joined=["n2"])  # 2
    current_assignment(new, "n2", ["orders-1"])
    new_member_left(new, "n2")  # 4

    new_member_left(new, "n1")
    new_group_deleted(new)  # 6
    data = str(logs.close())

    machine, problems = from_folders([data], "shop")
    assert problems == []
    assert told(machine, -0.001) == []
    assert told(machine, 0) == ["orders-0 m1 since 0, 1 of 1, at None", "orders-1 m1 since 0, 1 of 1, at None"]
    assert told(machine, 1.999) == ["orders-0 m1 since 0, 1 of 1, at 10", "orders-1 m1 since 0, 1 of 1, at 20"]
    assert told(machine, 3) == ["orders-0 m1 since 0, 1 of 2, at 5", "orders-1 m2 since 2, 2 of 2, at 21"]
    assert told(machine, 5) == ["orders-0 m1 since 0, 1 of 3, at None", "orders-1 None since 5, None of 3, at 21"]
    assert told(machine, 6) == ["orders-0 None since 6, None of 4, at None", "orders-1 None since 5, None of 4, at 21"]
    assert told(machine, 7) == []

    machine, _ = from_folders([data], "new")
    assert told(machine, 1) == ["orders-0 n1 since 0, 1 of 1, at 7", "orders-1 n1 since 0, 1 of 1, at None"]
    assert told(machine, 2) == ["orders-0 n1 since 0, 1 of 2, at 7", "orders-1 None since 2, None of 2, at None"]
    assert told(machine, 3)[1] == "orders-1 n2 since 3, 2 of 2, at None"
    assert told(machine, 4)[1] == "orders-1 None since 4, None of 2, at None"
    assert told(machine, 6) == []


def test_the_members_of_a_share_group_and_how_far_it_had_come(tmp_path: Path) -> None:
    logs = Logs(tmp_path / "data")
    shop = logs.group("shop")
    joined(shop, "m1", ["orders-0", "orders-1"])  # second 0
    state = ShareState(shop, "orders-0")
    state.snapshot(100)  # 1
    joined(shop, "m2", ["orders-0"])  # 2
    state.accept(100, 109)  # 3
    state.at(110).accept(110, 110)  # 4
    assigned(shop, "m1", ["orders-1"])  # 5
    left(shop, "m2")  # 6
    state.delete()  # 7
    machine, problems = from_folders([str(logs.close())], "shop")
    assert problems == []
    assert told(machine, 0) == ["orders-0 m1 since 0, 1 of 1, at None", "orders-1 m1 since 0, 1 of 1, at None"]
    assert told(machine, 3) == [
        "orders-0 m1 since 0, 1 of 1, at 100", "orders-0 m2 since 2, 2 of 2, at 100",
        "orders-1 m1 since 0, 1 of 1, at None",
    ]  # fmt: skip
    assert told(machine, 4)[1] == "orders-0 m2 since 2, 2 of 2, at 110"
    assert told(machine, 5) == ["orders-0 m2 since 2, 2 of 2, at 110", "orders-1 m1 since 5, 3 of 3, at None"]
    assert told(machine, 6)[0] == "orders-0 None since 4, None of 4, at 110"
    assert told(machine, 7) == ["orders-1 m1 since 5, 3 of 3, at None"]


def test_a_file_that_may_not_be_read_is_said_in_a_line(tmp_path: Path) -> None:
    logs = Logs(tmp_path / "data")
    shop = logs.group("shop")
    for _ in range(3):
        shop.generation({"m1": ["orders-0"]})
        logs.roll(shop.log_partition)
    data = str(logs.close())
    logs.segments(shop.log_partition)[1].chmod(0)
    for folder in (tmp_path, *tmp_path.parents[:2]):  # pytest keeps them from others
        folder.chmod(folder.stat().st_mode | 0o755)
    with as_nobody(), pytest.raises(AuditError, match="Permission denied"):
        from_folders([data], "shop")


def test_a_group_that_the_log_does_not_know_is_not_called_one_without_owners(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs = Logs(tmp_path / "data")
    logs.group("shop").generation({"m1": ["orders-0"]})
    ask = ["audit", "owners", str(logs.close()), "--at", str(START - 1), "--group"]
    assert main([*ask, "shop"]) == 0
    begins = in_words(START)
    assert capsys.readouterr().out.endswith(f"; its history here begins at {begins}.\n")
    assert main([*ask, "shpo"]) == 2
    assert capsys.readouterr().err == "kohort audit: there is no group shpo in the log\n"
