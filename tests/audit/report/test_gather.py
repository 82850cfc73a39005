"""What is gathered from the tables of a small example is what they hold, and no more than is shown."""

from __future__ import annotations

from collections import Counter
from typing import Any

from kohort.audit.report.gather import gather
from kohort.audit.report.limits import DETAILED_GROUPS, FINDINGS_PER_RULE, POINTS_OF_LINE
from kohort.audit.report.payload import GROUP, payload
from tests.audit.report.example import Example
from tests.audit.report.frames import source_without_spark
from tests.audit.report.test_page import detail_of

TOPICS = {"orders": 3}


def test_a_share_group_among_very_many_others_is_listed_and_not_drawn() -> None:
    example = Example()
    for number in range(DETAILED_GROUPS + 20):
        example.commits(f"busy-{number:03}", {"t": 1}, count=2, minutes=1)
    example.add("share_partitions", group_id="quiet", topic="t", topic_id="x", partition=0, updates=3, last_update=5)
    example.add("share_members", group_id="quiet", member_id="m1", partitions=[], start_time=1, start_log_offset=1)
    data = payload(gather(source_without_spark(example), {}), {})
    assert "quiet" not in data["details"]
    (row,) = (row for row in data["groups"]["rows"] if row[0] == "quiet")
    assert (row[1], row[-1], row[GROUP.index("members") + 5]) == ("share", 3, 1)


def test_the_report_has_what_the_tables_have() -> None:
    example = Example()
    example.generations("storm", TOPICS, rebalances=12, members=3, assignor="roundrobin", storm=range(2, 9))
    example.commits("storm", TOPICS, count=400, minutes=60, rewinds=[(1, 70, 5_000)])
    for number in range(DETAILED_GROUPS + 20):
        example.commits(f"quiet-{number:03}", {"t": 1}, count=1, minutes=1)
    for number in range(FINDINGS_PER_RULE + 30):
        example.finding("stall", "warning", f"stall {number}", minute=number, group_id=f"quiet-{number % 20:03}")
    example.finding("offset_rewind", "critical", "went back", minute=3, group_id="storm", generation=5)
    example.result("stall", "found", "warning", 230)
    example.log(4, damaged=True)
    data = payload(gather(source_without_spark(example), {"stall": "looks for stalls"}), {})

    assert data["totals"]["groups"] == DETAILED_GROUPS + 21
    assert data["totals"]["commits"] == len(example.rows["commit_steps"])
    assert data["totals"]["rebalances"] == len(example.rows["rebalances"])
    assert data["findings"]["counts"] == {"critical": 1, "error": 0, "warning": FINDINGS_PER_RULE + 30, "info": 0}
    rules = {rule["check"]: rule for rule in data["findings"]["rules"]}
    assert list(rules) == ["offset_rewind", "stall"]
    assert (rules["stall"]["count"], len(rules["stall"]["rows"])) == (FINDINGS_PER_RULE + 30, FINDINGS_PER_RULE)
    assert sum(map(sum, data["findings"]["histogram"]["bins"])) == FINDINGS_PER_RULE + 31
    assert data["checks"][0]["about"] == "looks for stalls"
    assert len(data["details"]) == DETAILED_GROUPS
    assert data["groups"]["rows"][0][0] == "storm"
    _check_the_storm(example, detail_of(data, "storm"))
    quiet = detail_of(data, "quiet-000")
    assert (len(quiet["findings"]), quiet["findings_left_out"], quiet["generations"]) == (12, 0, [])
    assert data["log"]["problems"][0][0] == 3
    sizes = [row["size_bytes"] for row in example.rows["log_batches"]]
    assert sum(part["bytes"] for part in data["log"]["partitions"]) == sum(sizes)


def _check_the_storm(example: Example, detail: dict[str, Any]) -> None:
    rows = [row for row in example.rows["ownership_intervals"] if row["group_id"] == "storm"]
    assert len(detail["intervals"]) == len(rows)
    assert len(detail["members"]) == len({row["member_id"] for row in rows})
    assert [row[0] for row in detail["generations"]] == list(range(1, 13))
    moved = Counter[str]()
    for row in example.rows["what_if"]:
        moved[row["assignor"]] += row["moved"]
    assert {row["assignor"]: row["moved"] for row in detail["what_if"]["totals"]} == dict(moved)
    assert detail["what_if"]["moved"] == sum(row["moved"] for row in example.rows["rebalances"])
    assert [row["own"] for row in detail["what_if"]["totals"]] == [False, True, False, False]
    lines = {line["partition"]: line for line in detail["offsets"]}
    last = {row["partition"]: row["offset"] for row in example.rows["commit_steps"] if row["group_id"] == "storm"}
    assert {partition: line["points"][-1][1] for partition, line in lines.items()} == last
    assert all(len(line["points"]) <= POINTS_OF_LINE + 1 for line in lines.values())
    assert [(before - after) for _, before, after in lines[1]["rewinds"]] == [5_000]
    assert detail["marks"][0]["index"] == 4


def test_every_bar_ends_where_the_next_owner_begins() -> None:
    example = Example()
    example.generations("g", TOPICS, rebalances=30, members=4)
    detail = detail_of(payload(gather(source_without_spark(example), {}), {}), "g")
    for row in range(3):
        bars = sorted(bar[2:4] for bar in detail["intervals"] if bar[0] == row)
        assert bars[0][0] == 0
        assert [end for _, end in bars[:-1]] == [start for start, _ in bars[1:]]
        assert bars[-1][1] is None


def test_a_report_of_empty_tables_can_be_made() -> None:
    data = payload(gather(source_without_spark(Example()), {}), {})
    assert data["totals"]["groups"] == 0
    assert data["details"] == {}
