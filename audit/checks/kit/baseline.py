"""Asks a running cluster about its groups and topics, for the checks that compare the log with the broker.

The broker changes its groups while its log is read. So it is asked twice, before and after the log is read. An answer
that was the same both times must agree with the log; other answers are not compared. Start and end offsets of
partitions are from the second time: an offset that was committed before cannot be beyond an end that was read later.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from kohort.audit.derive.records import CLASSIC, CONSUMER
from kohort.audit.derive.share_members import SHARE
from kohort.client import ask as questions
from kohort.client.client import Client
from kohort.client.cluster import Cluster
from kohort.client.committed import GROUPS_AT_ONCE, committed_offsets, in_chunks
from kohort.client.errors import ClientError
from kohort.client.settings import load_settings
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.errors import MalformedMessage
from kohort.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
)
from kohort.protocol.messages.consumer_group_describe import (
    DescribedGroup as DescribedConsumerGroup,
)
from kohort.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from kohort.protocol.messages.list_groups import ListedGroup
from kohort.protocol.subscription import read_assignment

SETTLED = ("Stable", "Empty")  # in other states assignments are about to change
PARTITIONS_AT_ONCE = 2_000
AWAY = -2  # member epoch of a static member that will come back: it owns nothing, though its partitions are kept for it

Place = tuple[str, int]
Owners = frozenset[tuple[Place, str]]


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


def ask(bootstrap: str, *, group: str | None = None, command_config: str | None = None) -> Answers:
    """Everything that the checks need; with `group`, about this group only. `bootstrap` is HOST:PORT,HOST:PORT."""
    try:
        settings = replace(load_settings(bootstrap, command_config, os.environ), client_id="kohort-audit")
        with Cluster(settings=settings) as cluster:
            return Answers(_groups(cluster, group), _partitions(cluster))
    except ClientError as error:
        raise BaselineError(str(error)) from error


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


def _groups(cluster: Cluster, only: str | None) -> dict[str, GroupAnswer]:
    listed = {one.group_id: one for one in questions.list_groups(cluster) if only in (None, one.group_id)}
    answers: dict[str, GroupAnswer] = {}
    for node_id, led in cluster.coordinators(sorted(listed)).items():
        coordinator = cluster.broker(node_id)
        for some in in_chunks(led, GROUPS_AT_ONCE):
            answers |= _groups_at(coordinator, [listed[group_id] for group_id in some])
    return answers


def _groups_at(coordinator: Client, listed: Sequence[ListedGroup]) -> Iterator[tuple[str, GroupAnswer]]:
    kinds = {one.group_id: (one.group_type or CLASSIC).lower() for one in listed}
    described = _described(coordinator, [group_id for group_id, kind in kinds.items() if kind not in (CONSUMER, SHARE)])
    by_epochs = _consumer_groups(coordinator, [group_id for group_id, kind in kinds.items() if kind == CONSUMER])
    committed = committed_offsets(coordinator, list(kinds))
    for one in listed:
        group_id, state, owners = one.group_id, one.group_state, None
        if group_id in by_epochs:
            state, owners = by_epochs[group_id].group_state, frozenset(_epoch_owners(by_epochs[group_id]))
        elif group_id in described:
            state = described[group_id].group_state
            owners = _owners(described[group_id]) if kinds[group_id] == CLASSIC else None
        yield (
            group_id,
            GroupAnswer(kinds[group_id], state, committed.get(group_id), owners if state in SETTLED else None),
        )


def _described(coordinator: Client, groups: list[str]) -> dict[str, DescribedGroup]:
    if not groups:
        return {}
    version = min(coordinator.newest_version(ApiKey.DESCRIBE_GROUPS), questions.CLASSIC_DESCRIBE)
    answer = coordinator.send(ApiKey.DESCRIBE_GROUPS, DescribeGroupsRequest(groups), version)
    return {group.group_id: group for group in answer.groups if not group.error_code}


def _consumer_groups(coordinator: Client, groups: list[str]) -> dict[str, DescribedConsumerGroup]:
    if not groups or not coordinator.offers(ApiKey.CONSUMER_GROUP_DESCRIBE):
        return {}
    answer = coordinator.send(ApiKey.CONSUMER_GROUP_DESCRIBE, ConsumerGroupDescribeRequest(groups))
    return {group.group_id: group for group in answer.groups if not group.error_code}


def _owners(group: DescribedGroup) -> Owners | None:
    """None if the group is no group of consumers, so that its assignments have another form."""
    owners = set()
    for member in group.members:
        if not member.member_assignment:
            continue
        try:
            assignment = read_assignment(member.member_assignment)
        except MalformedMessage:
            return None
        for topic in assignment.assigned_partitions:
            owners |= {((topic.topic, number), member.member_id) for number in topic.partitions}
    return frozenset(owners)


def _epoch_owners(group: DescribedConsumerGroup) -> Iterable[tuple[Place, str]]:
    """Partitions that a member has, and those that it is to give up."""
    for member in group.members:
        if member.member_epoch != AWAY and member.assignment is not None:
            for topic in member.assignment.topic_partitions:
                yield from (((topic.topic_name, partition), member.member_id) for partition in topic.partitions)


def _partitions(cluster: Cluster) -> dict[Place, tuple[int | None, int | None]]:
    found: dict[Place, tuple[int | None, int | None]] = {}
    readable = []
    for topic in cluster.metadata(None).topics:
        for partition in topic.partitions:
            place = (topic.name or "", partition.partition_index)
            found[place] = (None, None)
            if not topic.is_internal and not partition.error_code and partition.leader_id >= 0:
                readable.append(place)
    for some in in_chunks(readable, PARTITIONS_AT_ONCE):
        starts = questions.offsets_at(cluster, some, questions.EARLIEST)
        ends = questions.offsets_at(cluster, some, questions.LATEST)
        found |= {place: (starts.get(place), ends.get(place)) for place in some}
    return found
