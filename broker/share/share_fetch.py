"""ShareFetch (78): a member acknowledges what it has, and acquires records (KIP-932).

v1 is the first version; v2 has the mode record_limit (KIP-1206), and can renew acquisition locks (KIP-1222).

Records leave as they are on disk, like those of Fetch, and may be more than what was acquired: a client goes by the
acquired ranges. The fetch waits (`delayed_fetch.py`) until it can acquire records and the log has min.bytes of them:
appends wake it, and so does everything that makes records available. Between reading a partition and acquiring its
records nothing else happens, so no two fetches get in each other's way at one share partition.

What the members of a group may read is decided by its share.isolation.level. With read_committed that is what lies
below the last stable offset, and records of aborted transactions are archived when they are met: nobody gets them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from kohort.broker.call import PARKED, Parked
from kohort.broker.share.acknowledging import Acknowledging
from kohort.broker.share.answers import AT_ONCE, reply, request_problem
from kohort.broker.share.fetch_answer import FetchAnswer
from kohort.broker.share.fetch_reading import Reading, Target, release
from kohort.broker.share.persister import SharePartitionKey
from kohort.broker.share.sessions import FINAL_EPOCH, INITIAL_EPOCH, ShareSession, Wanted, sessions_of
from kohort.broker.share.share_partitions import share_partitions_of
from kohort.broker.topics.committed_reading import look, must_look
from kohort.broker.topics.delayed_fetch import DelayedFetch, Watched, may_wait
from kohort.coordinator.delivery.states import Wish
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.share_fetch import ShareFetchRequest, ShareFetchResponse

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.call import Call
    from kohort.broker.steps import Steps

PER_STEP = 50
BATCH_OPTIMIZED, RECORD_LIMIT = 0, 1  # ShareAcquireMode
KEPT = "share fetch"
Item = TypeVar("Item")


def share_fetch(broker: Broker, request: ShareFetchRequest, call: Call) -> Steps[ShareFetchResponse | Parked]:
    if problem := _problem(request):
        return ShareFetchResponse(0, problem)
    has_acknowledgements = yield from _has_acknowledgements(request)
    session = yield from _session(broker, request, call, has_acknowledgements=has_acknowledgements)
    if isinstance(session, ErrorCode):
        if session is ErrorCode.SHARE_SESSION_LIMIT_REACHED and request.max_wait_ms > 0:
            return _answer_later(broker, call, request.max_wait_ms, session)
        return ShareFetchResponse(0, session)
    acknowledging = None
    if has_acknowledgements:
        acknowledging = Acknowledging(broker, session.group_id, session.member_id)
        yield from acknowledging.begin(request.topics, call.version, is_renewal=request.is_renew_ack)
    return (yield from ShareFetching(broker, request, call, session, acknowledging).begin())


def _problem(request: ShareFetchRequest) -> ErrorCode | None:
    if problem := request_problem(request.group_id, request.member_id):
        return problem
    wants_records = request.max_bytes or request.min_bytes or request.max_records or request.max_wait_ms
    if request.is_renew_ack and wants_records:
        return ErrorCode.INVALID_REQUEST
    return None


def _has_acknowledgements(request: ShareFetchRequest) -> Steps[bool]:
    for topic in request.topics:
        for number, partition in enumerate(topic.partitions):
            if partition.acknowledgement_batches:
                return True
            if number % PER_STEP == 0:
                yield
    return False


def _session(
    broker: Broker, request: ShareFetchRequest, call: Call, *, has_acknowledgements: bool
) -> Steps[ShareSession | ErrorCode]:
    sessions = sessions_of(broker)
    group_id, member_id, epoch = request.group_id or "", request.member_id or "", request.share_session_epoch
    if epoch == INITIAL_EPOCH:
        if has_acknowledgements:
            return ErrorCode.INVALID_REQUEST
        return (yield from sessions.begin(group_id, member_id, request, call))
    session = sessions.check(group_id, member_id, epoch)
    if not isinstance(session, ErrorCode) and epoch != FINAL_EPOCH:
        sessions.pass_on(session)
        if not (yield from sessions.change(session, request)):
            sessions.forget(session, call)
            return ErrorCode.SHARE_SESSION_NOT_FOUND
    return session


def _answer_later(broker: Broker, call: Call, wait_ms: int, error: ErrorCode) -> Parked:
    """So that a client without a session does not ask all the time."""

    def answer() -> None:
        call.forget(KEPT)
        call.reply(ShareFetchResponse(0, error))

    timer = broker.call_later(wait_ms / 1000, answer)
    call.keep(KEPT, timer.cancel)
    return PARKED


class ShareFetching:
    """One ShareFetch, from its session to its answer."""

    __slots__ = (
        "_acknowledging", "_answer", "_broker", "_call", "_epoch", "_has_found_partitions", "_knows_mode",
        "_max_wait_ms", "_reading", "_reads", "_session", "_targets",
    )  # fmt: skip

    def __init__(
        self,
        broker: Broker,
        request: ShareFetchRequest,
        call: Call,
        session: ShareSession,
        acknowledging: Acknowledging | None,
    ) -> None:
        """The request is not kept: it may be long, and the fetch may wait."""
        self._broker = broker
        self._call = call
        self._session = session
        self._epoch = request.share_session_epoch
        self._acknowledging = acknowledging
        self._max_wait_ms = request.max_wait_ms
        mode = request.share_acquire_mode  # version 1 has none, and so 0
        self._knows_mode = mode in (BATCH_OPTIMIZED, RECORD_LIMIT)
        wish = Wish(session.member_id, request.max_records, request.batch_size, mode == RECORD_LIMIT)
        max_bytes = min(request.max_bytes, broker.config.fetch_max_bytes)
        self._reading = Reading(broker, wish, max_bytes, min(request.min_bytes, max_bytes))
        self._reads = not request.is_renew_ack and self._epoch != FINAL_EPOCH
        self._targets: list[Target] = []
        self._has_found_partitions = False
        self._answer = FetchAnswer(broker, call, session, self._epoch)

    def begin(self) -> Steps[ShareFetchResponse | Parked]:
        if self._reads:
            yield from self._find()
            if self._has_found_partitions and not self._knows_mode:
                return ShareFetchResponse(
                    0, ErrorCode.UNKNOWN_SERVER_ERROR
                )  # at this point an unknown mode makes Kafka fail
        if not self._targets or not self._reading.wants_records or self._all_failed:
            return (yield from self._finish_or_wait())
        if len(self._targets) > AT_ONCE or (len(self._targets) > 1 and self._reading.wants_many):
            return (yield from self._begin_in_steps())
        if self._reading.read(self._targets, is_final=self._max_wait_ms <= 0):
            return (yield from self._finish_or_wait())
        delayed = self._delayed(self._reading.missing_bytes, self._try_answer)
        delayed.start(self._watched(self._targets), self._max_wait_ms)
        return PARKED

    def _begin_in_steps(self) -> Steps[ShareFetchResponse | Parked]:
        """A fetch of many partitions, or many records, waits once, and is then answered with whatever there is."""
        try:
            yield from self._read_in_steps()
        except BaseException:  # GeneratorExit, for instance: the client hung up
            release(self._targets)
            raise
        has_found = any(target.acquired or target.error for target in self._targets)
        if not has_found and self._max_wait_ms > 0 and may_wait(self._broker, len(self._targets)):
            delayed = self._delayed(1, self._answer_in_steps)
            try:
                for some in _parts(self._targets):
                    delayed.watch(self._watched(some))
                    yield
            except BaseException:
                delayed.drop()
                raise
            delayed.wait(self._max_wait_ms, len(self._targets))
            return PARKED
        return (yield from self._finish_or_wait())

    def _delayed(self, missing_bytes: int, try_answer: Callable[[bool], int]) -> DelayedFetch:
        reads_committed = any(target.led.reads_committed for target in self._targets[:1])  # a setting of the group
        return DelayedFetch(self._broker, self._call, missing_bytes, try_answer, reads_committed=reads_committed)

    # --- the partitions

    def _find(self) -> Steps[None]:
        """The share partitions that the session fetches: the first one is another with each request."""
        wanted = list(self._session.partitions.values())
        if self._epoch > 0 and wanted:
            at = self._epoch % len(wanted)
            wanted = wanted[at:] + wanted[:at]
        for some in _parts(wanted):
            for each in some:
                self._find_one(each)
            yield
        if self._targets and self._targets[0].led.reads_committed:
            partitions = [target.led.partition for target in self._targets]
            if must_look(self._broker, partitions):
                yield from look(self._broker, partitions, self._call.now)

    def _find_one(self, wanted: Wanted) -> None:
        topic_id, index = wanted.key
        topic = self._broker.catalog.by_id(topic_id)
        if topic is None:
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if wanted.was_known else ErrorCode.UNKNOWN_TOPIC_ID
            self._answer.refuse(wanted, unknown)
        elif not 0 <= index < len(topic.partitions):
            self._answer.refuse(wanted, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        else:
            self._has_found_partitions = True
            if not self._reading.wants_records:
                return
            key = SharePartitionKey(self._session.group_id, topic_id, index)
            led = share_partitions_of(self._broker).find_or_load(key, topic.partitions[index])
            self._targets.append(Target(wanted, led))

    @property
    def _all_failed(self) -> bool:
        return all(target.led.error for target in self._targets)

    def _watched(self, targets: Sequence[Target]) -> list[Watched]:
        return [watched for target in targets for watched in (target.led, target.led.partition)]

    # --- reading again

    def _try_answer(self, final: bool) -> int:
        """Called when something was appended or became available, or the time is up."""
        if not self._reading.read(self._targets, is_final=final):
            return self._reading.missing_bytes
        acknowledging = self._acknowledging
        if acknowledging is None:
            self._reply()
        else:
            acknowledging.then(self._reply)
        return 0

    def _answer_in_steps(self, final: bool) -> int:  # noqa: ARG002
        self._call.reply_in_steps(self._read_and_finish())
        return 0

    def _read_and_finish(self) -> Steps[ShareFetchResponse]:
        try:
            yield from self._read_in_steps()
            while self._acknowledging is not None and not self._acknowledging.is_done:
                yield
        except BaseException:
            release(self._targets)
            raise
        return (yield from self._finish())

    def _read_in_steps(self) -> Steps[None]:
        self._reading.begin(len(self._targets))
        for target in self._targets:
            self._reading.read_one(target)
            yield

    # --- the answer

    def _finish_or_wait(self) -> Steps[ShareFetchResponse | Parked]:
        """The answer, if the acknowledgements are written; otherwise it is sent when they are."""
        acknowledging = self._acknowledging
        if acknowledging is None or acknowledging.is_done:
            return (yield from self._finish())
        acknowledging.then(self._reply)
        return PARKED

    def _reply(self) -> None:
        if self._call.is_gone:
            release(self._targets)
            return
        self._call.keep(KEPT, lambda: release(self._targets))  # an answer in steps may never take its first one
        acknowledged = 0 if self._acknowledging is None else len(self._acknowledging.results)
        reply(self._call, self._finish(), self._answer.count(self._targets) + acknowledged)

    def _finish(self) -> Steps[ShareFetchResponse]:
        self._call.forget(KEPT)
        results = {} if self._acknowledging is None else self._acknowledging.results
        try:
            response = yield from self._answer.response(self._targets, results)
        except BaseException:  # GeneratorExit, for instance: the client hung up
            release(self._targets)
            raise
        if self._epoch == FINAL_EPOCH:
            sessions_of(self._broker).forget(self._session, self._call)
        return response


def _parts(everything: Sequence[Item]) -> list[Sequence[Item]]:
    return [everything[start : start + PER_STEP] for start in range(0, len(everything), PER_STEP)]
