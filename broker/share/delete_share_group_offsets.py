"""DeleteShareGroupOffsets (92), v0: an empty share group forgets where it reads some topics.

If the group reads such a topic again, it begins where share.auto.offset.reset says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.broker.share.coordinators import ask_group, delete
from kohort.broker.steps import WaitingSteps
from kohort.coordinator.api import in_slices
from kohort.coordinator.share.offsets import BEGIN_DELETION, COMPLETE_DELETION, NOT_HERE, TopicsDeleted
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from kohort.protocol.wire import NO_UUID

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.call import Call


def delete_share_group_offsets(
    broker: Broker, request: DeleteShareGroupOffsetsRequest, _call: Call
) -> WaitingSteps[DeleteShareGroupOffsetsResponse]:
    group_id = request.group_id
    if not group_id:
        return DeleteShareGroupOffsetsResponse(0, ErrorCode.INVALID_GROUP_ID, "The group id is invalid.")
    existing: dict[str, DeleteShareGroupOffsetsRequestTopic] = {}
    missing: dict[str, DeleteShareGroupOffsetsResponseTopic] = {}
    for some in in_slices(request.topics):
        for topic in some:
            if broker.catalog.topic_id(topic.topic_name) is not None:
                existing[topic.topic_name] = topic
            else:
                missing[topic.topic_name] = _unknown(topic.topic_name, NOT_HERE)
        yield None
    asked_for = DeleteShareGroupOffsetsRequest(group_id, list(existing.values()))
    part = yield from ask_group(broker, group_id, BEGIN_DELETION, asked_for)
    if part.error:
        return DeleteShareGroupOffsetsResponse(0, part.error, part.message)
    unknown = [*missing.values(), *(_unknown(name, message) for name, message in part.unknown_topics.items())]
    if not part.places:
        return DeleteShareGroupOffsetsResponse(0, 0, None, unknown)
    asked = delete(broker, group_id, part.places)
    yield asked.waits
    problems = {topic_id: problem for (topic_id, _), problem in asked.problems.items()}
    topic_ids = list(dict.fromkeys(topic_id for topic_id, _ in part.places))
    gone = [topic_id for topic_id in topic_ids if topic_id not in problems]
    if gone:
        done = yield from ask_group(broker, group_id, COMPLETE_DELETION, TopicsDeleted(group_id, gone))
        if done.error:
            return DeleteShareGroupOffsetsResponse(0, done.error, done.message)
    rows = [_row(broker, topic_id, ErrorCode.NONE, None) for topic_id in gone]
    failed = [_row(broker, topic_id, *problem) for topic_id, problem in problems.items()]
    return DeleteShareGroupOffsetsResponse(0, 0, None, [*rows, *unknown, *failed])


def _unknown(name: str, message: str) -> DeleteShareGroupOffsetsResponseTopic:
    return DeleteShareGroupOffsetsResponseTopic(name, NO_UUID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)


def _row(
    broker: Broker, topic_id: bytes, error: ErrorCode, message: str | None
) -> DeleteShareGroupOffsetsResponseTopic:
    return DeleteShareGroupOffsetsResponseTopic(broker.catalog.name_of(topic_id) or "", topic_id, error, message)
