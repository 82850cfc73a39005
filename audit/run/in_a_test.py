"""The audit's rules over what a test has left in a broker: which of them make sense there, and findings as objects.

A test lasts seconds, starts and stops members on purpose, and may set the clock forward. So some rules are left out
unless the test names them: those that judge a broker's files (torn_tail, hot_log_partition), that compare with hours of
history (stall, commit_gap, orphaned_offsets), or that judge how partitions are shared out (imbalance, idle_members,
avoidable_moves). A few thresholds are others than those of `kohort audit`.

numpy and pyarrow are imported with the first call: this module can be imported without them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from kohort.audit.moments import in_words
from kohort.audit.result import SEVERITIES
from kohort.audit.tables import OFFSETS_TOPIC, STATE_TOPIC, log_name
from kohort.printable import printable
from kohort.storage.disk import Disk
from kohort.storage.layout import parse_partition_folder

if TYPE_CHECKING:
    from kohort.audit.run.in_process import Audited

NEEDED = ("numpy", "pyarrow")

CHECKS = (
    # what consumers do wrong
    "commit_by_non_owner", "commit_without_owner", "offset_rewind", "offset_jump", "rebalance_storm",
    "rebalance_longer_than_timeout", "static_member_with_many_ids", "committed_beyond_end_or_below_start",
    "topic_recreated", "tombstone_for_owned_partition", "poison_record", "share_stall", "lock_timeouts",
    "hanging_transaction", "pending_offsets",
    # what assignors, or Kohort itself, do wrong
    "two_owners", "subscribed_partition_without_owner", "assignment_outside_subscription",
    "generation_gap_or_decrease", "commit_by_fenced_producer", "crc_mismatch", "offset_overlap_or_gap",
    "undecodable_record",
)  # fmt: skip
THRESHOLDS: Mapping[str, float] = {
    # A test that starts and stops three members has six rebalances.
    "rebalance_storm.rebalances": 15,
    # A minute is too long for a test. Clients need some seconds for a cooperative rebalance, or to see a new topic.
    "subscribed_partition_without_owner.seconds": 10,
    # The coordinator looks every ten seconds for transactions that take too long.
    "hanging_transaction.minutes": 0.5,
    "pending_offsets.minutes": 2,
}
NEEDS_A_BROKER = "state_differs_from_broker"

Place = tuple[str, int]  # topic and partition


class NotInstalled(ImportError):
    """The packages that the checks need are not there; the message says how to install them."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a check found. Attributes that do not apply are None."""

    check: str
    severity: str  # critical, error, warning, info
    message: str  # what was seen, in one sentence
    advice: str  # what to do, in one sentence
    group: str | None
    topic: str | None
    partition: int | None
    member: str | None
    generation: int | None
    time: datetime | None  # when it happened or began
    until: datetime | None  # when it ended, if it lasted for some time
    value: float | None  # what was compared with the threshold
    log_partition: int | None  # of __consumer_offsets; from 100,000 on of other topics, see docs/audit.md
    log_offset: int | None  # in that log partition

    def __str__(self) -> str:
        place = self.topic if self.partition is None or self.topic is None else f"{self.topic}-{self.partition}"
        head = [f"{self.severity}: {self.check}", self.group and f"group {self.group}", place]
        lines = [", ".join(filter(None, head)), f"  {self.message}"]
        if where := ", ".join(self._where()):
            lines.append(f"  {where}")
        return "\n".join(printable(line) for line in [*lines, f"  {self.advice}"])

    def _where(self) -> Iterable[str]:
        if self.time is not None:
            began, ended = _shown(self.time), self.until and _shown(self.until)
            yield began if ended in (None, began) else f"{began} to {ended}"
        if self.member and self.member not in self.message:
            yield f"member {self.member}"
        if self.generation is not None:
            yield f"generation {self.generation}"
        if self.log_partition is not None and self.log_offset is not None:
            yield f"offset {self.log_offset} of {log_name(self.log_partition)}"


@dataclass(frozen=True, slots=True)
class Checked:
    """What came of the checks. As text: the findings, for people."""

    findings: tuple[Finding, ...]  # worst first
    not_evaluable: Mapping[str, str]  # check -> why it could not be evaluated, or not for all groups
    records: int  # how many records of the groups' log were looked at

    def at_least(self, severity: str) -> tuple[Finding, ...]:
        """The findings that are as severe, or more so."""
        bad = SEVERITIES[: SEVERITIES.index(severity) + 1]
        return tuple(finding for finding in self.findings if finding.severity in bad)

    def __str__(self) -> str:
        return in_full(self.findings)


def in_full(findings: Collection[Finding]) -> str:
    """Findings as text of several lines."""
    count = len(findings)
    head = f"{count} finding{'' if count == 1 else 's'}" if count else "no findings"
    return "\n\n".join([head, *map(str, findings)])


def check_log(
    disk: Disk, folder: str, *,
    checks: Collection[str] | None = None,
    ignore: Collection[str] = (),
    thresholds: Mapping[str, float] | None = None,
    group: str | None = None,
    since_ms: int | None = None,
    now_ms: int | None = None,
    topics: Callable[[], Mapping[Place, tuple[int, int]]] | None = None,
    log_partition_count: int | None = None,
) -> Checked:  # fmt: skip
    """Run the checks over the groups' log in a data folder of a disk. The broker may be running.

    Args:
        checks: names of checks, of those in docs/audit.md; None: CHECKS.
        ignore: names of checks that are left out.
        thresholds: "check.threshold" -> value; THRESHOLDS, then the audit's own defaults, hold for the others.
        group: look at this group only.
        since_ms: leave out findings that were over before.
        now_ms: what time it is; the last assignment counts as in force until then. None: until the last record.
        topics: gives start and end offset of every partition that the broker has. It is called when the commits have
            been read, so that no commit is later than the ends. None: they are not known.
        log_partition_count: of __consumer_offsets; None: it is guessed.
    """
    require()
    from kohort.audit.checks import parse_settings
    from kohort.audit.checks.kit.baseline import Answers
    from kohort.audit.run.in_process import Options, audit_disk

    settings = parse_settings(f"{name}={value}" for name, value in {**THRESHOLDS, **(thresholds or {})}.items())
    only = [name for name in _known(CHECKS if checks is None else checks) if name not in _known(ignore)]
    options = Options(
        settings, only, group, _moment(since_ms), _moment(now_ms),
        None if topics is None else lambda: Answers({}, topics()), log_partition_count,
    )  # fmt: skip
    places = (parse_partition_folder(info.name) for info in disk.scan_folder(folder))
    if not any(place and place[0] in (OFFSETS_TOPIC, STATE_TOPIC) for place in places):
        return Checked((), {}, 0)  # no group has come yet
    return _checked(audit_disk(disk, folder, options))


def require() -> None:
    """Raise NotInstalled if a package is missing."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        raise NotInstalled(
            f"the checks need {' and '.join(missing)}, which {verb} not installed: pip install 'kohort[testing]'"
        )


def _known(names: Collection[str]) -> Collection[str]:
    """The names, if there is such a check for each of them. ValueError, with a message for users, if not."""
    from kohort.audit.checks import ALL

    if isinstance(names, str):
        names = (names,)
    for name in names:
        if name not in ALL:
            raise ValueError(f"there is no check {name!r}; there are {', '.join(sorted(ALL))}")
        if name == NEEDS_A_BROKER:
            raise ValueError(f"{name} asks a broker over the network: kohort audit --baseline does that")
    return names


def _checked(audited: Audited) -> Checked:
    from kohort.audit.decode.folders import NO_SEGMENT

    # A running broker makes the folder of a log before it makes the first file in it.
    if problems := [problem for problem in audited.problems if not problem.endswith(NO_SEGMENT)]:
        raise OSError("; ".join(problems))
    reasons = {
        row["check"]: row["reason"] for row in audited.check_results if row["reason"] and row["group_id"] is None
    }
    return Checked(tuple(map(_finding, audited.findings)), reasons, audited.records)


def _finding(row: Mapping[str, Any]) -> Finding:
    return Finding(
        row["check"], row["severity"], row["message"], row["advice"], row["group_id"], row["topic"], row["partition"],
        row["member_id"], row["generation"], row["time"], row["until"], row["value"], row["log_partition"],
        row["log_offset"],
    )  # fmt: skip


def _moment(ms: int | None) -> datetime | None:
    return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC)


def _shown(moment: datetime) -> str:
    """The time of day: a test does not last long."""
    return in_words(moment).partition(" ")[2]
