"""A consumer of KIP-848 for the simulation. It behaves as Apache Kafka's Java client does.

A heartbeat says only what is new since the last one; after an error, or if an answer was lost, it says everything. The
member holds a partition from the answer that assigns it, until it has given it up on its own side: that takes a while,
and only then does it report what it still has. A member that is fenced gives up everything and joins again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from tests.coordinator.members import commit, errors_of, send_fetch
from tests.coordinator.support import Call
from tests.simulation.world import COME_AGAIN

if TYPE_CHECKING:
    from tests.simulation.consumer_world import ConsumerWorld

Place = tuple[bytes, int]  # topic id, partition
Holds = frozenset[Place]

TOPICS = ("orders", "ordinary", "payments", "refunds")
REGEXES = ("ord.*", "pay.*|ref.*", ".*s")
BAD_REGEX = "or(d"
NOTHING: Holds = frozenset()
MAX_OLD = 20  # heartbeats that a client remembers

JOIN, LEAVE, STATIC_LEAVE = 0, -1, -2
REJOIN = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)
FATAL = (
    ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.GROUP_MAX_SIZE_REACHED, ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.UNRELEASED_INSTANCE_ID, ErrorCode.INVALID_REGULAR_EXPRESSION,
)  # fmt: skip
COMMIT_REFUSED = (
    ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.FENCED_INSTANCE_ID,  # of classic members
    ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID,
)  # fmt: skip


class Sent(NamedTuple):
    """What was true when a heartbeat was sent."""

    at: int  # on the steady clock
    was_gone: bool  # the coordinator had removed the member before
    removals: int  # of the member, so far
    has_changed: bool  # the heartbeat has changed the group


class Consumer:
    def __init__(self, world: ConsumerWorld, name: str, group_id: str, instance_id: str | None) -> None:
        random = world.random
        self.world = world
        self.name = name
        self.group_id = group_id
        self.instance_id = instance_id
        self.version = random.choice((0, 1, 1, 1))
        self.rebalance_timeout_ms = random.choice((5_000, 20_000, 60_000))
        self.assignor = random.choice((None, None, "uniform", "range"))
        self.names: tuple[str, ...] = ()
        self.regex = ""
        self.is_alive = True
        self.is_hanging = False
        self.is_stray = False  # it was removed, has joined again, and does not know yet that it has lost everything
        self._old: list[ConsumerGroupHeartbeatRequest] = []  # heartbeats of this member, oldest first
        self._epochs: list[int] = []  # that it was told, without repetitions
        self._slots: dict[str, tuple[Call, Callable[[Call], None]]] = {}  # what is on the way, one of each kind
        self.start()

    def start(self) -> None:
        """A new process."""
        self.disconnect()
        chooses_id = self.version > 0 or self.world.random.random() < 0.5
        self.member_id = f"{self.name}-{self.world.random.getrandbits(32):08x}" if chooses_id else ""
        self.subscribe()
        self.forget()

    def forget(self) -> None:
        """It is no member any more, and has no partitions."""
        self.epoch = JOIN
        self.told_epoch = 0  # the highest that it was told as this member
        self._old, self._epochs = [], []
        self.drop()

    def drop(self) -> None:
        self.assignment = self.holds = NOTHING
        self._sent: dict[str, Any] = {}  # the fields that the coordinator knows

    def subscribe(self) -> None:
        random = self.world.random
        self.regex, self.names = "", ()
        if self.version > 0 and random.random() < 0.4:
            self.regex = random.choice(REGEXES) if self.world.is_calm or random.random() < 0.97 else BAD_REGEX
        if not self.regex or random.random() < 0.2:
            self.names = tuple(random.sample(TOPICS, random.randint(1, 2)))

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
        elif self._slots:
            self._wait()
        elif random.random() < self.world.restlessness:
            acts = (self.leave, self.leave, self.change, self.change, self.die, self.start, self.hang)
            random.choice((*acts, self.is_impersonated, self.is_echoed))()
        else:
            self.do_something()

    def _wait(self) -> None:
        """For answers. Meanwhile it works on, or the connection breaks."""
        self._look()
        random = self.world.random
        if self._slots and random.random() < 0.04:
            self.disconnect()
        elif random.random() < 0.1:
            self.give_up()
        elif "commit" not in self._slots and random.random() < 0.1:
            self.commit()

    def do_something(self) -> None:
        random = self.world.random
        if self.holds != self.assignment and random.random() < 0.3:
            self.give_up()
        elif self.holds and random.random() < 0.3:
            random.choice((self.commit, self.fetch))()
        else:
            self.heartbeat()

    def go_on(self) -> None:
        """What a client does that wants to consume, and nothing else."""
        if self._slots:
            self._look()
        if not self._slots:
            self.give_up()
            self.heartbeat()

    def give_up(self) -> None:
        self.holds = self.assignment

    def hang(self) -> None:
        """It says nothing for a while, and does not know."""
        self.world.tell(f"{self.name} hangs")
        self.is_hanging = True

    def change(self) -> None:
        self.subscribe()
        self.world.tell(f"{self.name} subscribes to {self.names} {self.regex}")

    def die(self) -> None:
        self.world.tell(f"{self.name} dies")
        self.start()
        self.is_alive = False

    def heartbeat(self) -> None:
        fields = self._fields()
        new = {name: value for name, value in fields.items() if self.epoch == JOIN or self._sent.get(name) != value}
        if self.epoch != JOIN and self._sent and self.holds != self.assignment:
            new.pop("owned", None)  # it reports when it has given up everything that it must
        request = self._request(self.epoch, **new)
        self._old = [*self._old[-MAX_OLD:], request]
        known = {**self._sent, **new}
        self._send("heartbeat", request, lambda call: self._heard(call, known))

    def _fields(self) -> dict[str, Any]:
        return {
            "rebalance_timeout_ms": self.rebalance_timeout_ms,
            "subscribed_topic_names": sorted(self.names),
            "subscribed_topic_regex": self.regex if self.version > 0 else None,
            "server_assignor": self.assignor,
            "owned": NOTHING if self.epoch == JOIN else self.holds,
        }

    def _request(self, epoch: int, owned: Holds | None = None, **fields: Any) -> ConsumerGroupHeartbeatRequest:
        request = ConsumerGroupHeartbeatRequest(self.group_id, self.member_id, epoch, self.instance_id, **fields)
        if owned is not None:
            topics: dict[bytes, list[int]] = {}
            for topic_id, partition in sorted(owned):
                topics.setdefault(topic_id, []).append(partition)
            request.topic_partitions = [TopicPartitions(*topic) for topic in topics.items()]
        return request

    def leave(self) -> None:
        """Close the consumer, or unsubscribe: then it may come back under the same id."""
        if self.epoch == JOIN or not self.member_id:
            return
        random = self.world.random
        epoch = STATIC_LEAVE if self.instance_id is not None and random.random() < 0.8 else LEAVE
        self.world.tell(f"{self.name} leaves with {epoch}")
        self.world.watch.leaves(self, epoch)
        request = self._request(epoch)
        self.forget()
        then = random.choice((self.start, self.die, self.forget))
        self._send("heartbeat", request, lambda call: then())

    def is_impersonated(self) -> None:
        """Another process has the same instance id by mistake. It asks to join, and is not heard of again."""
        if self.instance_id is None:
            return
        member_id = f"impostor-{self.world.random.getrandbits(32):08x}"
        request = ConsumerGroupHeartbeatRequest(self.group_id, member_id, JOIN, self.instance_id, None, 5_000, TOPICS)
        request.topic_partitions = []
        call = self.world.host.send(request, 1, self.name)
        self.world.hang_up(call)

    def is_echoed(self) -> None:
        """A heartbeat from long ago arrives: it was held up in a connection that the client has given up.

        One epoch behind could be the member itself, whose answer was lost. Two epochs behind can only be an echo.
        """
        old = [each for each in self._old if len(self._epochs) > 2 and 0 < each.member_epoch < self._epochs[-2]]
        if old:
            self.world.watch.expect_refusal(self, self.world.random.choice(old), self.version)

    def commit(self) -> None:
        topics = self.world.host.topics
        places = sorted(each for each in self.holds if topics.name_of(each[0]) is not None)
        if not places:
            return
        topic_id, partition = place = self.world.random.choice(places)
        name = topics.name_of(topic_id)
        assert name is not None
        expected = self.world.commits(self, place)
        call = commit(
            self.world.host, self.group_id, {(name, partition): expected.offset}, generation=self.epoch,
            member_id=self.member_id, instance_id=self.instance_id, version=self.world.random.choice((9, 10)),
        )  # fmt: skip
        self._take("commit", call, lambda call: self._committed(call, expected))

    def fetch(self) -> None:
        topics = self.world.host.topics
        places = [(name, n) for name in sorted(topics.names()) for n in range(topics.partition_count(name))]
        floor = self.world.floor_of(self.group_id)
        version = self.world.random.choice((9, 10))
        call = send_fetch(
            self.world.host, self.group_id, places, version=version, member_id=self.member_id, member_epoch=self.epoch
        )
        self._take("commit", call, lambda call: self.world.fetched(self, call, floor))

    def disconnect(self) -> None:
        for call, _ in self._slots.values():
            self.world.hang_up(call)
        self._slots = {}
        self._sent = {}

    # --- what it hears

    def _send(self, slot: str, request: ConsumerGroupHeartbeatRequest, then: Callable[[Call], None]) -> None:
        watch = self.world.watch
        before = watch.picture(self.group_id)
        was_gone, removals = watch.is_gone(self), watch.removals[self.group_id, self.member_id]
        call = self.world.host.send(request, self.version, self.name)
        sent = Sent(self.world.host.steady_ms, was_gone, removals, before != watch.picture(self.group_id))
        self._take(slot, call, lambda call: self._answered(call, sent, then))

    def _answered(self, call: Call, sent: Sent, then: Callable[[Call], None]) -> None:
        self.world.watch.is_answered(self, call, sent)
        then(call)

    def _take(self, slot: str, call: Call, then: Callable[[Call], None]) -> None:
        self._slots[slot] = call, then
        self._look()

    def _look(self) -> None:
        for slot, (call, then) in list(self._slots.items()):
            if call.is_answered and slot in self._slots:
                del self._slots[slot]
                then(call)

    def _heard(self, call: Call, known: dict[str, Any]) -> None:
        answer, error = call.answer, call.error
        assigned = "" if answer.assignment is None else [(t.topic_id[-1], *t.partitions) for t in _topics(answer)]
        self.world.tell(
            f"{self.name} {self.member_id} heard {error.name} {answer.member_epoch} {assigned}, has epoch {self.epoch}"
        )
        if error is not ErrorCode.NONE:
            self._refused(error)
            return
        self._sent = known
        self.member_id, self.epoch = answer.member_id, answer.member_epoch
        assert self.epoch >= self.told_epoch, (self.name, self.told_epoch, self.epoch)
        self.told_epoch = self.epoch
        if self._epochs[-1:] != [self.epoch]:
            self._epochs.append(self.epoch)
        if answer.assignment is not None:
            self.assignment = frozenset((topic.topic_id, n) for topic in _topics(answer) for n in topic.partitions)
            self.holds |= self.assignment
            self.world.assignments += 1

    def _refused(self, error: ErrorCode) -> None:
        self._sent = {}
        if error is ErrorCode.UNKNOWN_MEMBER_ID:
            self.forget()
        elif error is ErrorCode.FENCED_MEMBER_EPOCH:
            self.epoch = JOIN
            self.drop()
        elif error in FATAL:
            self.die()
        else:
            assert error in COME_AGAIN, error

    def _committed(self, call: Call, expected: Any) -> None:
        (error,) = errors_of(call).values()
        self.world.tell(f"{self.name} committed {expected}: {error.name}")
        if error is ErrorCode.NONE:
            self.world.acknowledged(self, expected)
        else:
            assert error in COMMIT_REFUSED or error in COME_AGAIN, error


def _topics(answer: Any) -> Any:
    return answer.assignment.topic_partitions
