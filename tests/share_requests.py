"""Requests about share groups, made from plain words; `id_of` gives the id of a topic."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kohort.protocol.messages import (
    alter_share_group_offsets as alter,
)
from kohort.protocol.messages import (
    delete_share_group_offsets as delete,
)
from kohort.protocol.messages import (
    describe_share_group_offsets as describe,
)
from kohort.protocol.messages import (
    share_acknowledge,
    share_fetch,
)

GAP, ACCEPT, RELEASE, REJECT, RENEW = 0, 1, 2, 3, 4
BATCH_OPTIMIZED, RECORD_LIMIT = 0, 1
OPEN, CLOSE = 0, -1  # session epochs

Partition = tuple[str, int]
Acknowledgement = tuple[int, int, Sequence[int]]  # first and last offset, types: one for all of them, or one for each
Acknowledgements = Mapping[Partition, Sequence[Acknowledgement]]
IdOf = Callable[[str], bytes]


def share_fetch_request(
    group: str | None,
    member_id: str | None,
    session_epoch: int,
    partitions: Sequence[Partition] = (),
    acknowledgements: Acknowledgements | None = None,
    *,
    id_of: IdOf,
    forget: Sequence[Partition] = (),
    max_wait_ms: int = 10_000,
    min_bytes: int = 1,
    max_bytes: int = 50 << 20,
    max_records: int = 500,
    batch_size: int = 500,
    mode: int = BATCH_OPTIMIZED,
    renew: bool = False,
) -> share_fetch.ShareFetchRequest:
    acknowledged = acknowledgements or {}
    topics: dict[str, list[share_fetch.FetchPartition]] = {}
    for topic, index in dict.fromkeys([*partitions, *acknowledged]):
        batches = [share_fetch.AcknowledgementBatch(*each) for each in acknowledged.get((topic, index), ())]
        topics.setdefault(topic, []).append(share_fetch.FetchPartition(index, batches))
    forgotten: dict[str, list[int]] = {}
    for topic, index in forget:
        forgotten.setdefault(topic, []).append(index)
    return share_fetch.ShareFetchRequest(
        group,
        member_id,
        session_epoch,
        max_wait_ms,
        min_bytes,
        max_bytes,
        max_records,
        batch_size,
        mode,
        renew,
        [share_fetch.FetchTopic(id_of(topic), rows) for topic, rows in topics.items()],
        [share_fetch.ForgottenTopic(id_of(topic), indexes) for topic, indexes in forgotten.items()],
    )


def share_acknowledge_request(
    group: str | None,
    member_id: str | None,
    session_epoch: int,
    acknowledgements: Acknowledgements,
    *,
    id_of: IdOf,
    renew: bool = False,
) -> share_acknowledge.ShareAcknowledgeRequest:
    topics: dict[str, list[share_acknowledge.AcknowledgePartition]] = {}
    for (topic, index), said in acknowledgements.items():
        batches = [share_acknowledge.AcknowledgementBatch(*each) for each in said]
        topics.setdefault(topic, []).append(share_acknowledge.AcknowledgePartition(index, batches))
    rows = [share_acknowledge.AcknowledgeTopic(id_of(topic), each) for topic, each in topics.items()]
    return share_acknowledge.ShareAcknowledgeRequest(group, member_id, session_epoch, renew, rows)


def alter_offsets_request(group: str, offsets: Mapping[Partition, int]) -> alter.AlterShareGroupOffsetsRequest:
    topics: dict[str, list[alter.AlterShareGroupOffsetsRequestPartition]] = {}
    for (topic, index), offset in offsets.items():
        topics.setdefault(topic, []).append(alter.AlterShareGroupOffsetsRequestPartition(index, offset))
    rows = [alter.AlterShareGroupOffsetsRequestTopic(topic, each) for topic, each in topics.items()]
    return alter.AlterShareGroupOffsetsRequest(group, rows)


def describe_offsets_request(
    *groups: tuple[str, Mapping[str, Sequence[int]] | None],
) -> describe.DescribeShareGroupOffsetsRequest:
    """Of the given partitions, or of all (None)."""
    rows = []
    for group, topics in groups:
        asked = None
        if topics is not None:
            asked = [describe.DescribeShareGroupOffsetsRequestTopic(t, list(p)) for t, p in topics.items()]
        rows.append(describe.DescribeShareGroupOffsetsRequestGroup(group, asked))
    return describe.DescribeShareGroupOffsetsRequest(rows)


def delete_share_offsets_request(group: str, *topics: str) -> delete.DeleteShareGroupOffsetsRequest:
    return delete.DeleteShareGroupOffsetsRequest(
        group, [delete.DeleteShareGroupOffsetsRequestTopic(topic) for topic in topics]
    )
