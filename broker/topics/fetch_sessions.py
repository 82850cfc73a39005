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
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from kohort.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from kohort.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
MAX_EPOCH: Final = 2**31 - 1
EVICTION_MS: Final = 120_000
FIRST_VERSION_WITH_TOPIC_IDS: Final = 13

TopicKey = str | bytes  # the name, or from v13 on the id
Key = tuple[TopicKey, int]


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
    __slots__ = ("created_ms", "epoch", "id", "last_used_ms", "partitions", "uses_topic_ids")

    def __init__(self, session_id: int, partitions: dict[Key, Wanted], uses_topic_ids: bool, now: int) -> None:
        self.id = session_id
        self.epoch = 1
        self.partitions = partitions
        self.uses_topic_ids = uses_topic_ids
        self.created_ms = self.last_used_ms = now

    def update(self, request: FetchRequest) -> None:
        partitions = self.partitions
        for key, wanted in _wanted(request.topics, self.uses_topic_ids):
            if (known := partitions.get(key)) is not None:
                known.fetch = wanted.fetch
            else:
                partitions[key] = wanted
        for forgotten in request.forgotten_topics_data:
            topic = forgotten.topic_id if self.uses_topic_ids else forgotten.topic
            for index in forgotten.partitions:
                partitions.pop((topic, index), None)

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

    __slots__ = ("expected_epoch", "is_full", "session", "uses_topic_ids", "wanted")

    def __init__(
        self, wanted: list[Wanted], uses_topic_ids: bool, session: FetchSession | None = None, *, is_full: bool = False
    ) -> None:
        self.wanted = wanted
        self.uses_topic_ids = uses_topic_ids
        self.session = session
        self.is_full = is_full  # a full fetch that asks for a session
        self.expected_epoch = session.epoch if session is not None else 0


class FetchSessions:
    def __init__(self, slots: int, new_id: Callable[[], int]) -> None:
        self._slots = slots
        self._new_id = new_id
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()  # the least recently used first

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, request: FetchRequest, version: int, now: int) -> Context | ErrorCode:
        uses_topic_ids = version >= FIRST_VERSION_WITH_TOPIC_IDS
        epoch = request.session_epoch
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._sessions.pop(request.session_id, None)
            wanted = list(dict(_wanted(request.topics, uses_topic_ids)).values())
            return Context(wanted, uses_topic_ids, is_full=epoch == INITIAL_EPOCH)
        session = self._sessions.get(request.session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.uses_topic_ids != uses_topic_ids:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        session.update(request)
        if not session.partitions:
            del self._sessions[session.id]
            return Context([], uses_topic_ids)
        session.last_used_ms = now
        self._sessions.move_to_end(session.id)
        session.epoch = next_epoch(epoch)
        return Context(list(session.partitions.values()), uses_topic_ids, session)

    def finish(
        self, context: Context, answers: list[tuple[Wanted, PartitionData]], now: int
    ) -> tuple[ErrorCode, int, list[tuple[Wanted, PartitionData]]]:
        """(error, session id, what to answer) for the answers that were read."""
        session = context.session
        if session is not None:
            if session.epoch != context.expected_epoch:
                return ErrorCode.INVALID_FETCH_SESSION_EPOCH, session.id, []
            return ErrorCode.NONE, session.id, session.keep_news(answers)
        if not context.is_full:
            return ErrorCode.NONE, NO_SESSION, answers
        made = self._create(context, now)
        if made is None:
            return ErrorCode.NONE, NO_SESSION, answers
        for wanted, answer in answers:
            wanted.is_news(answer)
        return ErrorCode.NONE, made.id, answers

    def _create(self, context: Context, now: int) -> FetchSession | None:
        if len(self._sessions) >= self._slots and not self._evict(len(context.wanted), now):
            return None
        session_id = self._new_id()
        while session_id in self._sessions or session_id == NO_SESSION:
            session_id = self._new_id()
        partitions = {(wanted.topic, wanted.fetch.partition): wanted for wanted in context.wanted}
        session = self._sessions[session_id] = FetchSession(session_id, partitions, context.uses_topic_ids, now)
        return session

    def _evict(self, size: int, now: int) -> bool:
        """Remove a session to make room for one of this size. False if every other one is worth more."""
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
        del self._sessions[oldest.id]
        return True


def next_epoch(epoch: int) -> int:
    return 1 if epoch == MAX_EPOCH else epoch + 1


def _wanted(topics: Iterable[FetchTopic], uses_topic_ids: bool) -> Iterable[tuple[Key, Wanted]]:
    for topic in topics:
        name: TopicKey = topic.topic_id if uses_topic_ids else topic.topic
        for fetch in topic.partitions:
            yield (name, fetch.partition), Wanted(name, fetch)
