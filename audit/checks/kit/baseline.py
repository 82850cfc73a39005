"""Asks a running broker about its groups and topics, for the checks that compare the log with the broker.

The broker changes its groups while its log is read. So it is asked twice, before and after the log is read. An answer
that was the same both times must agree with the log; other answers are not compared. Start and end offsets of
partitions are from the second time: an offset that was committed before cannot be beyond an end that was read later.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kohort.audit.checks.kit.describe import owners_in
from kohort.audit.derive.records import CLASSIC, CONSUMER
from kohort.audit.derive.share_members import SHARE
from kohort.protocol.errors import MalformedMessage

SETTLED = ("Stable", "Empty")  # in other states assignments are about to change
GROUPS_AT_ONCE = 500
PARTITIONS_AT_ONCE = 2_000
TIMEOUT_MS = 20_000
REACH_TIMEOUT_S = 10

Place = tuple[str, int]


class BaselineError(Exception):
    """The broker cannot be asked; the message says why in one line."""


class GroupAnswer(NamedTuple):
    """`offsets` and `owners` are None if the broker did not say, or gave two different answers."""

    type: str
    state: str
    offsets: Mapping[Place, int] | None
    owners: frozenset[tuple[Place, str]] | None  # partition and member id


class Answers(NamedTuple):
    groups: Mapping[str, GroupAnswer]
    partitions: Mapping[Place, tuple[int | None, int | None]]  # start and end offset


def ask(address: str, *, group: str | None = None) -> Answers:
    """Everything that the checks need; with `group`, about this group only."""
    from kafka import KafkaAdminClient
    from kafka.errors import KafkaError

    _reach(address)
    admin = None
    try:
        admin = KafkaAdminClient(bootstrap_servers=address, request_timeout_ms=TIMEOUT_MS, client_id="kohort-audit")
        return Answers(_groups(admin, address, group), _partitions(admin))
    except KafkaError as error:
        raise BaselineError(f"{address}: {str(error) or type(error).__name__}") from error
    except (OSError, ValueError, MalformedMessage) as error:
        raise BaselineError(f"{address}: {error}") from error
    finally:
        if admin is not None:
            admin.close()


def _reach(address: str) -> None:
    """Try to connect first: the client would retry for a long time, and say less about the reason."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise BaselineError(f"{address}: not of the form HOST:PORT")
    try:
        socket.create_connection((host.strip("[]"), int(port)), REACH_TIMEOUT_S).close()
    except OSError as error:
        raise BaselineError(f"{address}: {error.strerror or error}") from error


def agreed(before: Answers, after: Answers) -> Answers:
    """What did not change while the log was read. Groups that are in one of the two answers only are left out."""
    groups = {
        group_id: GroupAnswer(
            now.type,
            now.state,
            _alike(then.offsets, now.offsets),
            _alike(then.owners, now.owners) if then.state == now.state else None,
        )
        for group_id, now in after.groups.items()
        if (then := before.groups.get(group_id)) is not None
    }
    return Answers(groups, after.partitions)


def _alike(then: Any, now: Any) -> Any:
    return now if then == now else None


# --- asking -------------------------------------------------------------------------------------------------------


def _groups(admin: Any, address: str, only: str | None) -> dict[str, GroupAnswer]:
    listed = {one["group_id"]: one for one in admin.list_groups() if only in (None, one["group_id"])}
    kinds = {group_id: str(one.get("group_type") or CLASSIC).lower() for group_id, one in listed.items()}
    answers: dict[str, GroupAnswer] = {}
    for some in _chunks(sorted(listed), GROUPS_AT_ONCE):
        described = admin.describe_groups([group_id for group_id in some if kinds[group_id] not in (CONSUMER, SHARE)])
        by_epochs = owners_in(address, [group_id for group_id in some if kinds[group_id] == CONSUMER])
        committed = admin.list_group_offsets(dict.fromkeys(some))
        for group_id in some:
            told = described.get(group_id, {})
            state = str(told.get("group_state") or listed[group_id].get("group_state") or "")
            owners = None
            if group_id in by_epochs:
                state, owners = by_epochs[group_id]
            elif kinds[group_id] == CLASSIC and told and not told.get("error"):
                owners = _owners(told)
            offsets = committed.get(group_id)
            answers[group_id] = GroupAnswer(
                kinds[group_id],
                state,
                None if offsets is None else {tuple(at): one.offset for at, one in offsets.items() if one.offset >= 0},
                owners if state in SETTLED else None,
            )
    return answers


def _owners(told: Mapping[str, Any]) -> frozenset[tuple[Place, str]] | None:
    """None if the group is no group of consumers, so that its assignments have another form."""
    owners = set()
    for member in told["members"]:
        assignment = member["member_assignment"]
        if not assignment:
            continue
        if not isinstance(assignment, Mapping):
            return None
        for topic in assignment["assigned_partitions"]:
            owners |= {((topic["topic"], number), str(member["member_id"])) for number in topic["partitions"]}
    return frozenset(owners)


def _partitions(admin: Any) -> dict[Place, tuple[int | None, int | None]]:
    from kafka import TopicPartition
    from kafka.admin import OffsetSpec

    found: dict[Place, tuple[int | None, int | None]] = {}
    readable = []
    for topic in admin.describe_topics():
        for partition in topic["partitions"]:
            place = TopicPartition(topic["name"], partition["partition_index"])
            found[place.topic, place.partition] = (None, None)
            if not topic.get("is_internal") and not partition.get("error_code") and partition.get("leader_id", 0) >= 0:
                readable.append(place)
    for some in _chunks(readable, PARTITIONS_AT_ONCE):
        starts = admin.list_partition_offsets(dict.fromkeys(some, OffsetSpec.EARLIEST))
        ends = admin.list_partition_offsets(dict.fromkeys(some, OffsetSpec.LATEST))
        found |= {(at.topic, at.partition): (starts[at].offset, ends[at].offset) for at in some}
    return found


def _chunks(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
