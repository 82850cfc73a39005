"""The time machine: who owned each partition of a group at a moment, since when, in which generation, at which offset.

Times are those of the broker that wrote the log. An assignment holds from the time of its record on; a commit holds
from the time when the coordinator received it. Between two records nothing changes.

Partitions that had an owner before but have none at the moment are included, without an owner, unless the group was
deleted.

Members of a share group read a partition together. So there is an "owner" for each of them, and the start offset of the
group is in the place of a committed offset.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from kohort.audit.derive.records import CLASSIC_GENERATION
from kohort.audit.owners.share_members import assigned_at, progress_of

Row = Mapping[str, Any]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Owner(NamedTuple):
    """A partition at a moment."""

    topic: str
    partition: int
    member_id: str | None  # None: nobody
    instance_id: str | None
    client_id: str | None
    client_host: str | None
    since: datetime  # when this owner got it, or when the last owner lost it
    since_generation: int | None  # the generation in which the owner got it
    generation: int | None  # in force at the moment; in consumer and share groups the epoch of the owner
    offset: int | None  # the last one committed by then, or the start offset; None: none, or deleted
    committed: datetime | None  # when the offset was committed


class TimeMachine:
    """Answers for any moment of one group's history."""

    def __init__(
        self, intervals: Iterable[Row], generations: Iterable[Row], epochs: Iterable[Row], commits: Iterable[Row],
        share_members: Iterable[Row] = (), share_steps: Iterable[Row] = (), *, is_of_streams: bool = False,
    ) -> None:  # fmt: skip
        """Rows of one group: of ownership_intervals, generations or epochs, members' epochs, commit_steps, and of the
        tables about share groups. Of a streams group nobody's partitions are known: its members have tasks."""
        self.is_of_streams = is_of_streams
        self._intervals = list(intervals)
        self._generations = _by_key(generations, ())
        self._epochs = _by_key(epochs, ("member_id",))
        self._commits = _by_key(commits, ("topic", "partition"))
        self._share_members = list(share_members)
        self._progress = _by_key(progress_of(share_steps), ("topic", "partition"))

    @property
    def begins(self) -> datetime | None:
        """When the first record about the group was written, or the first offset committed; None: there is none."""
        dated = ((self._generations, "record_time"), (self._epochs, "record_time"), (self._commits, "time"))
        times = [row[column] for rows, column in dated for series in rows.values() for row in series]
        times += [row["start_time"] for row in self._intervals + self._share_members]
        return min((time for time in times if time is not None), default=None)

    def at(self, at_ms: int) -> list[Owner]:
        at = EPOCH + timedelta(milliseconds=at_ms)
        begun = [row for row in self._intervals if row["start_time"] <= at]
        held = [row for row in begun if row["end_time"] is None or row["end_time"] > at]
        owners = [self._owner(row, at) for row in held]
        owned = {(row["topic"], row["partition"]) for row in held}
        lost = {}
        for row in sorted(begun, key=lambda row: (row["end_time"] or EPOCH, row["start_log_offset"])):
            if (row["topic"], row["partition"]) not in owned:
                lost[row["topic"], row["partition"]] = row
        if not self._is_deleted(at):
            owners += [self._nobody(row, at) for row in lost.values()]
            owners += self._of_share_group(at)
        return sorted(owners, key=lambda owner: (owner.topic, owner.partition, owner.member_id or ""))

    def _of_share_group(self, at: datetime) -> Iterable[Owner]:
        """A row for each member of each partition; and for partitions with a start offset that no member has."""
        assigned = list(assigned_at(self._share_members, at))
        for topic, partition, row in assigned:
            who = (row["member_id"], None, row["client_id"], row["client_host"])
            epoch = _number(_last(self._epochs.get((row["member_id"],), []), "record_time", at))
            yield Owner(
                topic, partition, *who, row["start_time"], row["first_epoch"], epoch,
                *self._started(topic, partition, at),
            )  # fmt: skip
        have = {(topic, partition) for topic, partition, _ in assigned}
        for topic, partition in sorted(self._progress.keys() - have):
            last = _last(self._progress[topic, partition], "time", at)
            if last is not None and not last["tombstone"]:
                yield Owner(
                    topic, partition, None, None, None, None, last["time"], None, self._group_generation(at),
                    *self._started(topic, partition, at),
                )  # fmt: skip

    def _started(self, topic: str, partition: int, at: datetime) -> tuple[int | None, datetime | None]:
        found = _last(self._progress.get((topic, partition), []), "time", at)
        return (
            (None, None) if found is None or found["start_offset"] is None else (found["start_offset"], found["time"])
        )

    def _owner(self, row: Row, at: datetime) -> Owner:
        who = (row["member_id"], row["instance_id"], row["client_id"], row["client_host"])
        return Owner(
            row["topic"], row["partition"], *who, row["start_time"], row["first_generation"],
            self._generation(row, at), *self._committed(row, at),
        )  # fmt: skip

    def _nobody(self, row: Row, at: datetime) -> Owner:
        return Owner(
            row["topic"], row["partition"], None, None, None, None, row["end_time"], None,
            self._group_generation(at), *self._committed(row, at),
        )  # fmt: skip

    def _generation(self, owned: Row, at: datetime) -> int | None:
        """The generation in force; in consumer groups the epoch of the member. The group may have been converted."""
        last = _last(self._generations.get((), []), "record_time", at)
        if last is not None and last["record_type"] == CLASSIC_GENERATION:
            return _number(last)
        return _number(_last(self._epochs.get((owned["member_id"],), []), "record_time", at))

    def _group_generation(self, at: datetime) -> int | None:
        return _number(_last(self._generations.get((), []), "record_time", at))

    def _is_deleted(self, at: datetime) -> bool:
        last = _last(self._generations.get((), []), "record_time", at)
        return last is not None and last["tombstone"]

    def _committed(self, owned: Row, at: datetime) -> tuple[int | None, datetime | None]:
        found = _last(self._commits.get((owned["topic"], owned["partition"]), []), "time", at)
        return (None, None) if found is None or found["offset"] is None else (found["offset"], found["time"])


def _by_key(rows: Iterable[Row], key: tuple[str, ...]) -> dict[tuple[Any, ...], list[Row]]:
    """Rows by the values of these columns, in the order of the log."""
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in sorted(rows, key=lambda row: row["log_offset"]):
        found.setdefault(tuple(row[name] for name in key), []).append(row)
    return found


def _last(rows: list[Row], time: str, at: datetime) -> Row | None:
    """The last row that was in the log at the moment."""
    return next((row for row in reversed(rows) if row[time] <= at), None)


def _number(row: Row | None) -> int | None:
    return None if row is None else row["generation"]
