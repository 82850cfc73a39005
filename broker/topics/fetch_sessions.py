"""Fetch sessions (KIP-227): the broker remembers what a consumer fetches, so that requests name only changes.

    session id 0, epoch 0     a full fetch; the answer names a new session, if there is room for one
    session id n, epoch 0     the same, and session n is closed
    session id n, epoch -1    a full fetch without a session; session n is closed
    session id n, epoch e     an incremental fetch: what changed and what is forgotten; e counts up from 1, 0 is skipped

An incremental answer holds only the partitions with news. Those with records move to the end of the session's order, so
that a busy partition does not starve the others of a small max.bytes.

At most max.incremental.fetch.session.cache.slots sessions are kept. When all are taken, a new session replaces the one
that was unused for the longest time, if that time is more than two minutes. Else it replaces a session that is not
larger and was made more than two minutes ago. Else the client gets no session and keeps sending full fetches.

Beyond what Kafka does, a connection has one session, which ends with the connection, and large sessions share an
allowance of partitions. Clients that use sessions begin a new one when they connect again. A session
remembers partitions that do not exist as well: the client does not name them again, and must hear when they exist. If a
long request names more than a thousand of them, it gets no session.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar

from kohort.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from kohort.broker.call import Call
    from kohort.broker.steps import Steps
    from kohort.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, PartitionData

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
MAX_EPOCH: Final = 2**31 - 1
EVICTION_MS: Final = 120_000
FIRST_VERSION_WITH_TOPIC_IDS: Final = 13
PARTITIONS_PER_STEP: Final = 100
LARGE: Final = 1_000  # partitions; few consumers fetch more from one broker
MAX_PARTITIONS_IN_LARGE: Final = 100_000  # of all large sessions together; about 40 MB
KEPT: Final = "fetch session"

TopicKey = str | bytes  # the name, or from v13 on the id
Key = tuple[TopicKey, int]
Unknown = dict[TopicKey, dict[int, None]]  # indexes of partitions by topic; the inner dict is an ordered set
Item = TypeVar("Item")


class Wanted:
    """A partition that is fetched, with the offsets that its last answer in this session told."""

    __slots__ = ("fetch", "high_watermark", "log_start_offset", "topic", "was_known")

    def __init__(self, topic: TopicKey, fetch: FetchPartition) -> None:
        self.topic = topic
        self.fetch = fetch
        self.was_known = False
        self.high_watermark = -1
        self.log_start_offset = -1

    def is_news(self, answer: PartitionData) -> bool:
        """Whether an incremental answer must name the partition. Remembers the offsets of this answer."""
        news = bool(answer.records) or answer.error_code != 0 or answer.diverging_epoch is not None
        if answer.high_watermark != self.high_watermark:
            news = True
            self.high_watermark = answer.high_watermark
        if answer.log_start_offset != self.log_start_offset:
            news = True
            self.log_start_offset = answer.log_start_offset
        if answer.error_code:
            self.high_watermark = -1  # so that the first answer without the error is news
        return news


class FetchSession:
    __slots__ = ("created_ms", "epoch", "id", "last_used_ms", "partitions", "taken", "uses_topic_ids")

    def __init__(self, session_id: int, partitions: dict[Key, Wanted], uses_topic_ids: bool, now: int) -> None:
        self.id = session_id
        self.epoch = 1
        self.partitions = partitions
        self.uses_topic_ids = uses_topic_ids
        self.created_ms = self.last_used_ms = now
        self.taken = 0  # of the allowance for large sessions

    def put(self, changed: Iterable[tuple[Key, Wanted]]) -> None:
        partitions = self.partitions
        for key, wanted in changed:
            if (known := partitions.get(key)) is not None:
                known.fetch = wanted.fetch
            else:
                partitions[key] = wanted

    def forget(self, keys: Iterable[Key]) -> None:
        for key in keys:
            self.partitions.pop(key, None)

    def keep_news(self, answers: list[tuple[Wanted, PartitionData]]) -> list[tuple[Wanted, PartitionData]]:
        """The part of the answers that an incremental answer holds."""
        news = []
        for wanted, answer in answers:
            if wanted.is_news(answer):
                news.append((wanted, answer))
                if answer.records:
                    key = (wanted.topic, wanted.fetch.partition)
                    if self.partitions.pop(key, None) is not None:
                        self.partitions[key] = wanted
        return news


class Context:
    """What one request fetches, and in which session."""

    __slots__ = ("_partitions", "expected_epoch", "is_full", "session", "unknown", "uses_topic_ids", "wanted")

    def __init__(
        self,
        partitions: dict[Key, Wanted],
        uses_topic_ids: bool,
        session: FetchSession | None = None,
        *,
        is_full: bool = False,
        unknown: Unknown | None = None,
    ) -> None:
        self._partitions = partitions
        self.unknown = unknown or {}  # partitions of a long request that do not exist and are not in `wanted`
        self.wanted = list(partitions.values())
        self.uses_topic_ids = uses_topic_ids
        self.session = session
        self.is_full = is_full  # a full fetch that asks for a session
        self.expected_epoch = session.epoch if session is not None else 0

    def open_session(self, session_id: int, now: int) -> FetchSession:
        self.session = FetchSession(session_id, self._partitions, self.uses_topic_ids, now)
        return self.session

    def told(self, answers: list[tuple[Wanted, PartitionData]]) -> list[tuple[Wanted, PartitionData]]:
        """The part of the answers that the client is told. The session remembers what it needs of them."""
        session = self.session
        if session is None:
            return answers
        if not self.is_full:
            return session.keep_news(answers)
        for wanted, answer in answers:
            wanted.is_news(answer)
        return answers


class FetchSessions:
    def __init__(self, slots: int, new_id: Callable[[], int]) -> None:
        self._slots = slots
        self._new_id = new_id
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()  # the least recently used first
        self._taken = 0  # partitions of large sessions

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        return sum(len(session.partitions) for session in self._sessions.values())

    def begin(self, request: FetchRequest, version: int, now: int) -> Context | ErrorCode:
        uses_topic_ids = version >= FIRST_VERSION_WITH_TOPIC_IDS
        epoch = request.session_epoch
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self.drop(request.session_id)
            return Context(
                dict(_wanted(request.topics, uses_topic_ids)), uses_topic_ids, is_full=epoch == INITIAL_EPOCH
            )
        session = self._find(request, uses_topic_ids)
        if isinstance(session, ErrorCode):
            return session
        session.put(_wanted(request.topics, uses_topic_ids))
        if request.forgotten_topics_data:
            session.forget(_forgotten(request.forgotten_topics_data, uses_topic_ids))
        return self._next(session, epoch, now)

    def begin_in_steps(
        self, request: FetchRequest, version: int, now: int, exists: Callable[[TopicKey, int], bool]
    ) -> Steps[Context | ErrorCode]:
        """The same for a long request."""
        uses_topic_ids = version >= FIRST_VERSION_WITH_TOPIC_IDS
        epoch = request.session_epoch
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self.drop(request.session_id)
            return (yield from self._full_in_steps(request, uses_topic_ids, exists))
        session = self._find(request, uses_topic_ids)
        if isinstance(session, ErrorCode):
            return session
        for topic in request.topics:
            for some in _parts(_wanted([topic], uses_topic_ids)):
                session.put(some)
                yield
            yield
        for gone in request.forgotten_topics_data:
            for keys in _parts(_forgotten([gone], uses_topic_ids)):
                session.forget(keys)
                yield
            yield
        session = self._find(request, uses_topic_ids)  # another request may have ended or used it meanwhile
        return session if isinstance(session, ErrorCode) else self._next(session, epoch, now)

    def _full_in_steps(
        self, request: FetchRequest, uses_topic_ids: bool, exists: Callable[[TopicKey, int], bool]
    ) -> Steps[Context]:
        partitions: dict[Key, Wanted] = {}
        unknown: Unknown = {}
        unknown_count = 0
        for topic in request.topics:
            for key, wanted in _wanted([topic], uses_topic_ids):
                if key in partitions or exists(*key):
                    partitions[key] = wanted
                elif unknown_count < LARGE:
                    partitions[key] = wanted
                    unknown_count += 1
                else:
                    unknown.setdefault(key[0], {})[key[1]] = None
                yield
            yield
        is_full = request.session_epoch == INITIAL_EPOCH and not unknown
        return Context(partitions, uses_topic_ids, is_full=is_full, unknown=unknown)

    def _find(self, request: FetchRequest, uses_topic_ids: bool) -> FetchSession | ErrorCode:
        session = self._sessions.get(request.session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != request.session_epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.uses_topic_ids != uses_topic_ids:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        return session

    def _next(self, session: FetchSession, epoch: int, now: int) -> Context | ErrorCode:
        if not session.partitions:
            self.drop(session.id)
            return Context({}, session.uses_topic_ids)
        is_large = len(session.partitions) > LARGE or session.taken
        if is_large and not self._take_allowance(session):
            self.drop(session.id)
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND  # the client goes on with full fetches
        session.last_used_ms = now
        self._sessions.move_to_end(session.id)
        session.epoch = next_epoch(epoch)
        return Context(session.partitions, session.uses_topic_ids, session)

    def finish(self, context: Context, call: Call) -> tuple[ErrorCode, int]:
        """(error, session id) of the answer. `context.told` then says what else is in it."""
        session = context.session
        if session is not None:
            is_late = session.epoch != context.expected_epoch
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH if is_late else ErrorCode.NONE, session.id
        made = self._create(context, call) if context.is_full else None
        return ErrorCode.NONE, NO_SESSION if made is None else made.id

    def _create(self, context: Context, call: Call) -> FetchSession | None:
        call.let_go(KEPT)  # a client that asks for a new session does not use its old one any more
        if len(self._sessions) >= self._slots and not self._evict(len(context.wanted), call.now):
            return None
        if len(context.wanted) > LARGE and self._taken + len(context.wanted) > MAX_PARTITIONS_IN_LARGE:
            return None
        session_id = self._new_id()
        while session_id in self._sessions or session_id == NO_SESSION:
            session_id = self._new_id()
        session = self._sessions[session_id] = context.open_session(session_id, call.now)
        self._take_allowance(session)
        call.keep(KEPT, lambda: self.drop(session_id))
        return session

    def _take_allowance(self, session: FetchSession) -> bool:
        """Note how many partitions the session has. False: too many, together with those of other large sessions."""
        count = len(session.partitions)
        taken = count if count > LARGE else 0
        self._taken += taken - session.taken
        session.taken = taken
        return not taken or self._taken <= MAX_PARTITIONS_IN_LARGE

    def drop(self, session_id: int) -> None:
        if (session := self._sessions.pop(session_id, None)) is not None:
            self._taken -= session.taken

    def _evict(self, size: int, now: int) -> bool:
        """Remove a session to make room for one of this size. False if no session may be replaced by it."""
        if not self._sessions:
            return False
        oldest = next(iter(self._sessions.values()))
        if now - oldest.last_used_ms <= EVICTION_MS:
            old = [each for each in self._sessions.values() if now - each.created_ms > EVICTION_MS]
            if not old:
                return False
            oldest = min(old, key=lambda session: len(session.partitions))
            if len(oldest.partitions) > size:
                return False
        self.drop(oldest.id)
        return True


def next_epoch(epoch: int) -> int:
    return 1 if epoch == MAX_EPOCH else epoch + 1


def _wanted(topics: Iterable[FetchTopic], uses_topic_ids: bool) -> Iterator[tuple[Key, Wanted]]:
    for topic in topics:
        name: TopicKey = topic.topic_id if uses_topic_ids else topic.topic
        for fetch in topic.partitions:
            yield (name, fetch.partition), Wanted(name, fetch)


def _forgotten(topics: Iterable[ForgottenTopic], uses_topic_ids: bool) -> Iterator[Key]:
    for topic in topics:
        name: TopicKey = topic.topic_id if uses_topic_ids else topic.topic
        for index in topic.partitions:
            yield name, index


def _parts(everything: Iterator[Item]) -> Iterator[list[Item]]:
    while some := list(islice(everything, PARTITIONS_PER_STEP)):
        yield some
