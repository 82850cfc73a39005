"""Runs all rules over one partition of the log, then brings the results of all partitions together. No Spark here."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kohort.audit.checks import ALL, MODULES
from kohort.audit.checks.kit.check import SEVERITIES, Check, Row
from kohort.audit.checks.kit.evaluable import NOT_EVALUABLE, Missing, missing_in, missing_overall
from kohort.audit.checks.kit.part import Part
from kohort.audit.checks.kit.summary import Summary, summarize
from kohort.audit.checks.kit.world import World
from kohort.audit.checks.settings import Settings
from kohort.audit.tables import keeps_share_state

MAX_PER_GROUP = 20  # findings of one check in one group; the worst are kept, the others counted
MAX_GROUPS_NAMED = 100  # if a check is not evaluable for more groups, they are counted, not named


class Seen(NamedTuple):
    """What the rules found in one log partition."""

    findings: list[Row]
    missing: list[Missing]
    summaries: list[Summary]
    clients: Mapping[tuple[str, str], str] = {}  # share groups: group and member id -> client id


def check_part(part: Part, settings: Settings, only: Collection[str] | None = None) -> Seen:
    found: list[Row] = []
    for check in wanted(only):
        if find := getattr(MODULES[check.name], "find", None):
            rows = [row for row in find(part, settings.of(check)) if part.world.is_told(row)]
            for row in rows:
                row["log_partition"] = part.log_partition
            found += _capped(rows)
    return Seen(found, list(missing_in(part)), [summarize(part)], part.share_clients)


def conclude(
    seen: Iterable[Seen], world: World, settings: Settings, only: Collection[str] | None = None
) -> tuple[list[Row], list[Row]]:
    """Rows of findings, worst first, and of check_results."""
    found: list[Row] = []
    missing, summaries = list(missing_overall(world)), list[Summary]()
    clients: dict[str, dict[str, str]] = {}
    for one in seen:
        found += one.findings
        for (group_id, member_id), client_id in one.clients.items():
            clients.setdefault(group_id, {})[member_id] = client_id
        missing += one.missing
        summaries += one.summaries
    missing.sort(key=lambda one: (one.need, one.group_id or ""))
    summaries.sort()
    checks = wanted(only)
    for check in checks:
        if find := getattr(MODULES[check.name], "find_overall", None):
            found += find(summaries, settings.of(check))
    for row in found:
        if row["group_id"] in clients and keeps_share_state(row["log_partition"] or 0):
            row["message"] = _with_clients(row["message"], clients[row["group_id"]])
    found.sort(key=_worst_first)
    return found, [row for check in checks for row in _results(check, settings, found, missing, summaries)]


def _with_clients(message: str, clients: Mapping[str, str]) -> str:
    """Member ids of share groups are random, so the client stands before them. It is known in another log partition."""
    for member_id in sorted(clients):
        if member_id in message:
            whole = rf"(?<![\w-]){re.escape(member_id)}(?![\w-])"
            message = re.sub(whole, lambda _, name=f"{clients[member_id]} {member_id}": name, message)  # type: ignore[misc]
    return message


def wanted(only: Collection[str] | None) -> list[Check]:
    return [check for name, check in ALL.items() if only is None or name in only]


def _capped(rows: Iterable[Row]) -> list[Row]:
    """The worst findings of one check in each group. If there are more, the last one says how many."""
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        groups.setdefault(row["group_id"], []).append(row)
    kept = []
    for some in groups.values():
        if len(some) > MAX_PER_GROUP:
            some.sort(key=_worst_first)
            some[MAX_PER_GROUP - 1]["message"] += f"; and {len(some) - MAX_PER_GROUP:,} more like it in this group"
        kept += some[:MAX_PER_GROUP]
    return kept


def _worst_first(row: Row) -> tuple[Any, ...]:
    place = (row["group_id"] or "", row["topic"] or "", row["partition"] or 0, row["log_offset"] or 0)
    return SEVERITIES.index(row["severity"]), row["check"], -(row["value"] or 0.0), *place


# --- what became of each check ------------------------------------------------------------------------------------


def _results(
    check: Check, settings: Settings, found: Sequence[Row], missing: Sequence[Missing], summaries: Sequence[Summary]
) -> list[Row]:
    """A row for the check, and rows for groups for which it is not evaluable."""
    severities = [row["severity"] for row in found if row["check"] == check.name]
    lacking = [one for one in missing if one.need in check.needs]
    reasons = [one.reason for one in lacking if one.group_id is None]
    of_groups = {one.group_id: one for one in lacking if one.group_id is not None}
    for need, count in Counter(one.need for one in lacking if one.group_id is not None).items():
        if count >= sum(one.groups[need] for one in summaries):
            first = next(one for one in lacking if one.need == need and one.group_id is not None)
            reasons.append(f"for none of {count:,} groups: {first.reason}")
    row: Row = {
        "check": check.name,
        "status": "found" if severities else NOT_EVALUABLE if reasons else "clean",
        "severity": severities[0] if severities else check.severity,  # findings are sorted, the worst first
        "findings": len(severities),
        "threshold": settings.in_words(check),
        "group_id": None,
        "reason": "; ".join(reasons) or (f"not evaluable for {len(of_groups):,} groups" if of_groups else None),
    }
    lack = row | {"status": NOT_EVALUABLE, "findings": 0}
    return [row, *(lack | {"group_id": one.group_id, "reason": one.reason} for one in _named(of_groups.values()))]


def _named(missing: Collection[Missing]) -> Collection[Missing]:
    """The groups that get a row of their own. None if they are too many: then the row of the check has their number."""
    return missing if len(missing) <= MAX_GROUPS_NAMED else ()
