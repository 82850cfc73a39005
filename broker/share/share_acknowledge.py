"""ShareAcknowledge (79): a member says what became of records that it has acquired (KIP-932).

v1 is the first version, v2 can renew acquisition locks and tells how long they are (KIP-1222).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.broker.call import PARKED, Parked
from kohort.broker.share.acknowledging import Acknowledging
from kohort.broker.share.answers import PER_STEP, CurrentLeader, reply, request_problem
from kohort.broker.share.sessions import FINAL_EPOCH, INITIAL_EPOCH, sessions_of
from kohort.broker.share.settings import settings_of
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.share_acknowledge import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.call import Call
    from kohort.broker.steps import Steps

NO_LEADER = LeaderIdAndEpoch()  # of nearly all partitions: one object for all


def share_acknowledge(
    broker: Broker, request: ShareAcknowledgeRequest, call: Call
) -> Steps[ShareAcknowledgeResponse | Parked]:
    if problem := request_problem(request.group_id, request.member_id):
        return ShareAcknowledgeResponse(0, problem)
    group_id, member_id = request.group_id or "", request.member_id or ""
    sessions = sessions_of(broker)
    if request.share_session_epoch == INITIAL_EPOCH:
        return ShareAcknowledgeResponse(0, ErrorCode.INVALID_SHARE_SESSION_EPOCH)
    session = sessions.check(group_id, member_id, request.share_session_epoch)
    if isinstance(session, ErrorCode):
        return ShareAcknowledgeResponse(0, session)
    is_last = request.share_session_epoch == FINAL_EPOCH
    if not is_last:
        sessions.pass_on(session)
    acknowledging = Acknowledging(broker, group_id, member_id)
    yield from acknowledging.begin(request.topics, call.version, is_renewal=request.is_renew_ack)

    def finish() -> Steps[ShareAcknowledgeResponse]:
        if is_last:
            sessions.forget(session, call)
        return (yield from _answer(broker, call, group_id, acknowledging))

    if acknowledging.is_done:
        return (yield from finish())
    acknowledging.then(lambda: reply(call, finish(), len(acknowledging.results)))
    return PARKED


def _answer(broker: Broker, call: Call, group_id: str, acknowledging: Acknowledging) -> Steps[ShareAcknowledgeResponse]:
    leader = CurrentLeader(broker, call)
    topics: dict[bytes, list[PartitionData]] = {}
    for number, ((topic_id, index), (error, message)) in enumerate(acknowledging.results.items(), 1):
        answer = PartitionData(index, error, message, NO_LEADER)
        if leader.is_told_with(error):
            answer.current_leader = LeaderIdAndEpoch(*leader.id_and_epoch)
        topics.setdefault(topic_id, []).append(answer)
        if number % PER_STEP == 0:
            yield
    return ShareAcknowledgeResponse(
        0,
        ErrorCode.NONE,
        None,
        settings_of(broker, group_id).record_lock_duration_ms,
        [ShareAcknowledgeTopicResponse(topic_id, partitions) for topic_id, partitions in topics.items()],
        [NodeEndpoint(*leader.endpoint)] if leader.is_told else (),
    )
