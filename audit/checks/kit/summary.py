"""Figures of one log partition, for the checks that compare log partitions with each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pyarrow.compute as pc

from kohort.audit.checks.kit.check import CAUSES, COMMITTERS, HISTORY, JOIN_STARTS, OWNERS, SHARE_HISTORY
from kohort.audit.checks.kit.part import Part
from kohort.audit.tables import LOG_BATCHES


class Summary(NamedTuple):
    log_partition: int
    records: int
    busiest: str | None  # the group with most commits
    commits: int  # of that group
    groups: Mapping[str, int]  # need -> number of groups that a check with this need looks at


def summarize(part: Part) -> Summary:
    records = pc.sum(part.table(LOG_BATCHES.name)["record_count"]).as_py() or 0
    commits = part.steps.count_by_group(~part.steps.tombstone)
    busiest = max(commits, key=lambda group_id: (commits[group_id], group_id), default=None)
    most = 0 if busiest is None else commits[busiest]
    return Summary(part.log_partition, records, busiest, most, _concerned(part, set(commits)))


def _concerned(part: Part, committing: set[str]) -> dict[str, int]:
    with_members = {row["group_id"] for row in part.rebalances}
    everybody = dict.fromkeys((HISTORY, OWNERS), len(part.first_offsets))
    share = {row["group_id"]: row["updates"] for row in part.share_partitions}
    everybody |= {SHARE_HISTORY: len(share), CAUSES: sum(1 for updates in share.values() if updates)}
    return everybody | {COMMITTERS: len(with_members & committing), JOIN_STARTS: len(with_members)}
