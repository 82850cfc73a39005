"""Share sessions: the broker remembers what a member of a share group fetches here, so that requests name only changes.

    epoch 0     ShareFetch: begin a session with the partitions named, in place of one that the member may have
    epoch n     go on; n counts the member's requests from 1, those of ShareFetch and ShareAcknowledge together
    epoch -1    acknowledge once more, and end the session

A session ends with the connection that began it, too. What the member has acquired is released then. At most
group.share.max.share.sessions are kept. Beyond what Kafka does, large sessions share an allowance of partitions.

When a connection closes and no session of its group is left, the group's share partitions are dropped from memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from time import monotonic_ns
from typing import TYPE_CHECKING, Final

from kohort.broker.share.persister import SharePartitionKey
from kohort.broker.share.share_partitions import share_partitions_of
from kohort.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.call import Call
    from kohort.broker.steps import Steps
    from kohort.protocol.messages.share_fetch import ShareFetchRequest

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
MAX_EPOCH: Final = 2**31 - 1
PARTITIONS_PER_STEP: Final = 100
LARGE: Final = 1_000  # partitions; few members fetch more from one broker
MAX_PARTITIONS_IN_LARGE: Final = 100_000  # of all large sessions together
SLICE_NS: Final = 5_000_000
EXTRA: Final = "share_sessions"  # in Broker.extra

Key = tuple[bytes, int]  # topic id, partition
SessionKey = tuple[str, str]  # group, member


class Wanted:
    """A partition that a session fetches."""

    __slots__ = ("key", "must_tell", "was_known")

    def __init__(self, key: Key, *, must_tell: bool, was_known: bool) -> None:
        self.key = key
        self.must_tell = must_tell  # the next answer names it, even without news
        self.was_known = was_known  # its topic existed when the session was told of it


class ShareSession:
    __slots__ = ("connection", "epoch", "group_id", "member_id", "partitions", "taken")

    def __init__(self, group_id: str, member_id: str, connection: object, partitions: dict[Key, Wanted]) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.connection = connection
        self.epoch = 1
        self.partitions = partitions
        self.taken = 0  # of the allowance for large sessions

    @property
    def key(self) -> SessionKey:
        return self.group_id, self.member_id

    def move_to_end(self, wanted: Wanted) -> None:
        """An answer has had records of this partition: the next answer begins with the other partitions."""
        if self.partitions.pop(wanted.key, None) is not None:
            self.partitions[wanted.key] = wanted


def sessions_of(broker: Broker) -> ShareSessions:
    found: ShareSessions | None = broker.extra.get(EXTRA)
    if found is None:
        found = broker.extra[EXTRA] = ShareSessions(broker)
    return found


class ShareSessions:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._sessions: dict[SessionKey, ShareSession] = {}
        self._by_group: Counter[str] = Counter()
        self._taken = 0  # partitions of large sessions

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        return sum(len(session.partitions) for session in self._sessions.values())

    def get(self, group_id: str, member_id: str) -> ShareSession | None:
        return self._sessions.get((group_id, member_id))

    def check(self, group_id: str, member_id: str, epoch: int) -> ShareSession | ErrorCode:
        """The session, for a request that goes on with it or ends it."""
        session = self._sessions.get((group_id, member_id))
        if session is None:
            return ErrorCode.SHARE_SESSION_NOT_FOUND
        if epoch not in (FINAL_EPOCH, session.epoch):
            return ErrorCode.INVALID_SHARE_SESSION_EPOCH
        return session

    def pass_on(self, session: ShareSession) -> None:
        """A request was taken: the next one has the next epoch."""
        session.epoch = 1 if session.epoch == MAX_EPOCH else session.epoch + 1

    # --- beginning and changing

    def begin(
        self, group_id: str, member_id: str, request: ShareFetchRequest, call: Call
    ) -> Steps[ShareSession | ErrorCode]:
        """A new session, in place of the one that the member may have."""
        old = self._sessions.get((group_id, member_id))
        if old is not None:  # what the member has acquired stays acquired
            self._remove(old)
        partitions: dict[Key, Wanted] = {}
        if not (yield from self._add(partitions, request, must_tell=False)):
            return ErrorCode.SHARE_SESSION_LIMIT_REACHED
        if len(partitions) < sum(len(topic.partitions) for topic in request.topics):
            return ErrorCode.UNKNOWN_SERVER_ERROR  # Kafka stumbles over a partition that is named twice
        if len(self._sessions) >= self._broker.config.group_share_max_share_sessions:
            return ErrorCode.SHARE_SESSION_LIMIT_REACHED
        session = ShareSession(group_id, member_id, call.connection, partitions)
        if not self._take_allowance(session):
            return ErrorCode.SHARE_SESSION_LIMIT_REACHED
        before = self._sessions.get(session.key)
        if before is not None:  # the member has begun it on another connection, while this request was read
            self._remove(before)
        self._sessions[session.key] = session
        self._by_group[group_id] += 1
        call.keep(_kept_as(session), lambda: self.end(session))
        return session

    def change(self, session: ShareSession, request: ShareFetchRequest) -> Steps[bool]:
        """Add what the request names, and remove what it forgets. False: that is too much."""
        if not (yield from self._add(session.partitions, request, must_tell=True)):
            return False
        for keys in _parts(_forgotten(request)):
            for key in keys:
                session.partitions.pop(key, None)
            yield
        return self._take_allowance(session)

    def _add(self, partitions: dict[Key, Wanted], request: ShareFetchRequest, *, must_tell: bool) -> Steps[bool]:
        """False: too many that do not exist."""
        unknown_count = 0
        for keys in _parts(_named(request)):
            for key in keys:
                if key not in partitions:
                    topic = self._broker.catalog.by_id(key[0])
                    partitions[key] = Wanted(key, must_tell=must_tell, was_known=topic is not None)
                    if topic is None or not 0 <= key[1] < len(topic.partitions):
                        unknown_count += 1
            if unknown_count > LARGE:
                return False
            yield
        return True

    def _take_allowance(self, session: ShareSession) -> bool:
        count = len(session.partitions)
        taken = count if count > LARGE else 0
        if taken and self._taken + taken - session.taken > MAX_PARTITIONS_IN_LARGE:
            return False
        self._taken += taken - session.taken
        session.taken = taken
        return True

    # --- ending

    def end(self, session: ShareSession) -> None:
        """The member ended it, or its connection is closed: release what the member has acquired."""
        if self._sessions.get(session.key) is not session:
            return
        self._remove(session)
        self._release(session, lambda: self._forget_if_empty(session.group_id))

    def _release(self, session: ShareSession, then: Callable[[], object]) -> None:
        """Release what the member has acquired: a member of many records does it in several turns."""
        self._go_on_releasing(self._releases(session), then)

    def _releases(self, session: ShareSession) -> Iterator[None]:
        led = share_partitions_of(self._broker)
        for topic_id, index in list(session.partitions):
            found = led.get(SharePartitionKey(session.group_id, topic_id, index))
            if found is not None:
                yield from found.release(session.member_id)
            yield

    def _go_on_releasing(self, releases: Iterator[None], then: Callable[[], object]) -> None:
        until = monotonic_ns() + SLICE_NS
        for _ in releases:
            if monotonic_ns() > until:
                self._broker.call_later(0, lambda: self._go_on_releasing(releases, then))
                return
        then()

    def _forget_if_empty(self, group_id: str) -> None:
        if group_id not in self._by_group:
            share_partitions_of(self._broker).forget_group(group_id)

    def _remove(self, session: ShareSession) -> None:
        del self._sessions[session.key]
        self._by_group[session.group_id] -= 1
        if not self._by_group[session.group_id]:
            del self._by_group[session.group_id]
        self._taken -= session.taken
        session.taken = 0

    def forget(self, session: ShareSession, call: Call) -> None:
        """End the session on the member's request. What the group has in memory stays there, as in Kafka, until the
        connection is closed: consumers that come and go need not load it again.
        """
        if self._sessions.get(session.key) is not session:
            return
        group_id = session.group_id
        if session.connection is call.connection:
            call.forget(_kept_as(session))
        if share_partitions_of(self._broker).of_group(group_id):
            call.keep(f"share group {group_id}", lambda: self._forget_if_empty(group_id))
        self._remove(session)
        self._release(session, lambda: None)


def _kept_as(session: ShareSession) -> str:
    return f"share session {session.group_id} {session.member_id}"


def _named(request: ShareFetchRequest) -> Iterator[Key]:
    for topic in request.topics:
        for partition in topic.partitions:
            yield topic.topic_id, partition.partition_index


def _forgotten(request: ShareFetchRequest) -> Iterator[Key]:
    for topic in request.forgotten_topics_data:
        for index in topic.partitions:
            yield topic.topic_id, index


def _parts(keys: Iterable[Key]) -> Iterator[list[Key]]:
    part: list[Key] = []
    for key in keys:
        part.append(key)
        if len(part) == PARTITIONS_PER_STEP:
            yield part
            part = []
    if part:
        yield part
