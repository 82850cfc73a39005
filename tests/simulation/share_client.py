"""A member of a share group for the simulation. It behaves as Apache Kafka's Java client does.

A heartbeat names the topics only when they are new, and after an error or a lost answer. The member has what the last
answer with an assignment said. A member that is fenced has nothing and joins again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.coordinator.support import Call
from tests.simulation.world import COME_AGAIN

if TYPE_CHECKING:
    from tests.simulation.share_world import ShareWorld

Place = tuple[bytes, int]  # topic id, partition
Holds = frozenset[Place]

TOPICS = ("orders", "ordinary", "payments", "refunds")
NOTHING: Holds = frozenset()
JOIN, LEAVE = 0, -1
FATAL = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.GROUP_MAX_SIZE_REACHED)


class Sent(NamedTuple):
    """What was true when a heartbeat was sent."""

    at: int  # on the steady clock
    was_gone: bool  # the coordinator had removed the member before
    has_changed: bool  # the heartbeat has changed the group


class Sharer:
    def __init__(self, world: ShareWorld, name: str, group_id: str) -> None:
        self.world = world
        self.name = name
        self.group_id = group_id
        self.is_alive = True
        self.is_hanging = False
        self._waits_for: tuple[Call, Sent] | None = None
        self.start()

    def start(self) -> None:
        """A new process."""
        self.disconnect()
        self.member_id = f"{self.name}-{self.world.random.getrandbits(32):08x}"
        self.subscribe()
        self.forget()

    def forget(self) -> None:
        """It is no member any more, and has no partitions."""
        self.epoch = self.told_epoch = JOIN
        self.epochs: list[int] = []  # that it was told, without repetitions
        self.drop()

    def drop(self) -> None:
        self.holds = NOTHING
        self.says_everything = True

    def subscribe(self) -> None:
        random = self.world.random
        self.names = tuple(random.sample(TOPICS, random.choice((1, 2, 2, 3))))
        self.says_everything = True

    # --- what it does

    def act(self) -> None:
        """One thing that a client might do now."""
        random = self.world.random
        if not self.is_alive:
            if random.random() < 0.1:
                self.is_alive = True
                self.start()
        elif self.is_hanging:
            self.is_hanging = random.random() > 0.03
        elif self._waits_for is not None:
            self._look()
            if self._waits_for is not None and random.random() < 0.04:
                self.disconnect()
        elif random.random() < self.world.restlessness:
            random.choice((self.leave, self.leave, self.subscribe, self.subscribe, self.die, self.start, self.hang,
                           self.is_echoed))()  # fmt: skip
        else:
            self.heartbeat()

    def go_on(self) -> None:
        """What a client does that wants to read, and nothing else."""
        self._look()
        if self._waits_for is None:
            self.heartbeat()

    def hang(self) -> None:
        self.is_hanging = True

    def die(self) -> None:
        self.is_alive = False
        self.disconnect()
        self.forget()

    def leave(self) -> None:
        if self.epoch == JOIN:
            return
        self.world.watch.leaves(self)
        self._send(LEAVE, None)

    def heartbeat(self) -> None:
        says_everything = self.says_everything or self.epoch == JOIN
        self._send(self.epoch, self.names if says_everything else None)

    def is_echoed(self) -> None:
        """A heartbeat from long ago arrives: it was held up in a connection that the client has given up.

        One epoch behind could be the member itself, whose answer was lost. Two epochs behind can only be an echo.
        """
        if len(self.epochs) > 2 and 0 < self.epochs[0] < self.epochs[-2]:
            request = ShareGroupHeartbeatRequest(self.group_id, self.member_id, self.epochs[0])
            self.world.watch.expect_refusal(self, request)

    def disconnect(self) -> None:
        if self._waits_for is not None:
            self.world.hang_up(self._waits_for[0])
        self._waits_for = None
        self.says_everything = True

    @property
    def is_waiting(self) -> bool:
        """An answer is on its way, or was lost: it may have said something else than the member knows."""
        return self._waits_for is not None or self.says_everything

    # --- what it hears

    def _send(self, epoch: int, names: tuple[str, ...] | None) -> None:
        watch = self.world.watch
        before, was_gone = watch.picture(self.group_id), watch.is_gone(self)
        request = ShareGroupHeartbeatRequest(self.group_id, self.member_id, epoch, None, names)
        call = self.world.host.send(request, 1, self.name)
        has_changed = watch.picture(self.group_id) != before
        self._waits_for = call, Sent(self.world.host.steady_ms, was_gone, has_changed)
        self._look()

    def _look(self) -> None:
        if self._waits_for is None or not self._waits_for[0].is_answered:
            return
        (call, sent), self._waits_for = self._waits_for, None
        self.world.watch.is_answered(self, call, sent)
        then: Callable[[Call], None] = self._has_left if call.request.member_epoch == LEAVE else self._heard
        then(call)

    def _has_left(self, call: Call) -> None:
        self.world.tell(f"{self.name} {self.member_id} leaves: {call.error.name}")
        self.world.random.choice((self.start, self.die, self.forget))()

    def _heard(self, call: Call) -> None:
        answer, error = call.answer, call.error
        topics = () if answer.assignment is None else answer.assignment.topic_partitions
        told = [(topic.topic_id[-1], *topic.partitions) for topic in topics]
        self.world.tell(f"{self.name} {self.member_id} heard {error.name} {answer.member_epoch} {told}")
        if error is not ErrorCode.NONE:
            self._refused(error)
            return
        self.says_everything = False
        self.epoch = answer.member_epoch
        assert self.epoch >= self.told_epoch, f"{self.name} is told epoch {self.epoch} after {self.told_epoch}"
        self.told_epoch = self.epoch
        if self.epochs[-1:] != [self.epoch]:
            self.epochs.append(self.epoch)
        if answer.assignment is not None:
            self.holds = frozenset((topic.topic_id, each) for topic in topics for each in topic.partitions)
            self.world.assignments += 1

    def _refused(self, error: ErrorCode) -> None:
        self.says_everything = True
        if error is ErrorCode.UNKNOWN_MEMBER_ID:
            self.forget()
        elif error is ErrorCode.FENCED_MEMBER_EPOCH:
            self.epoch = JOIN
            self.drop()
        elif error in FATAL:
            self.die()
        else:
            assert error in COME_AGAIN, error
