"""What all simulated worlds have: a coordinator, clients, and a disk that is slow, fails and loses power.

One seed decides everything: who acts next, how much time passes, what the disk does. After each event the world checks
what must hold. At the end nothing goes wrong any more for a while: then every group must come to rest.

    classic_world.py     groups of the classic protocol
    consumer_world.py    groups of KIP-848
    migrating_world.py   groups whose members change from one protocol to the other
    share_world.py       share groups of KIP-932

`delivery_world.py` and `txn_world.py` stand beside it: they simulate leaders of partitions, and a whole broker.

Every failure prints its seed and the command that repeats it, see __main__.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from hashlib import sha256
from random import Random
from typing import Any, Protocol

from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.member import ConsumerMember, Partitions
from kohort.coordinator.group_runtime import GroupRuntime
from kohort.coordinator.shard import Shard, Status
from kohort.coordinator.shard_state import ShardState
from kohort.coordinator.share.group import ShareGroup
from kohort.coordinator.share.member import ShareMember
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.record_batch import build_batch, read_records
from tests.coordinator.support import START, Call, Host

COME_AGAIN = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE)

Chances = list[tuple[float, Callable[[], None]]]


class Client(Protocol):
    """Somebody who sends requests. `act`: one thing that it might do now. `go_on`: what it does if all is well."""

    def act(self) -> None: ...

    def go_on(self) -> None: ...

    def disconnect(self) -> None: ...


class World(ABC):
    clients: Sequence[Client]

    def __init__(self, seed: int, random: Random, host: Host) -> None:
        self.seed = seed
        self.random = random
        self.host = host
        self.trace: list[str] = []
        self.host.disk.is_slow = self.host.disk.is_busy = True
        self.gone: set[int] = set()  # ids of calls whose connections are gone
        self.gone_calls: list[Call] = []  # keeps these ids taken
        self.is_calm = False
        self.crashes = self.failures = 0

    def tell(self, text: str) -> None:
        self.trace.append(f"{self.host.now - START:8d}  {text}")

    def digest(self) -> str:
        return sha256("\n".join(self.trace).encode()).hexdigest()

    def hang_up(self, call: Call) -> None:
        """The client's connection is gone: it will not hear the answer."""
        self.gone.add(id(call))
        self.gone_calls.append(call)

    # --- what happens

    @abstractmethod
    def chances(self) -> Chances:
        """What can happen, and how often."""

    @abstractmethod
    def check(self) -> None:
        """What must hold after each event."""

    @abstractmethod
    def calm_down(self) -> None:
        """Nothing goes wrong any more: every group comes to rest."""

    def run(self, steps: int) -> None:
        weights, actions = zip(*self.chances(), strict=True)
        for _ in range(steps):
            self.random.choices(actions, weights)[0]()
            self.check()
        self.is_calm = True
        self.tell("calm")
        self.calm_down()

    def someone_acts(self) -> None:
        self.random.choice(self.clients).act()

    def time_passes(self) -> None:
        self.host.advance(int(self.random.expovariate(1 / 400)))

    def disk_writes(self) -> None:
        """It takes what has gathered, or finishes the oldest write that it has taken."""
        if self.host.disk.on_the_way and self.random.random() < 0.5:
            self.host.write_one()
        else:
            self.host.disk.on_the_way += self.host.take_writes()
        self.host.settle()

    def disk_fails(self) -> None:
        """For one shard: what of it is on the way is refused, though some of it may have arrived."""
        on_the_way = self.host.disk.on_the_way
        if not on_the_way:
            return
        partition = self.random.choice(on_the_way).shard.partition
        mine = [write for write in on_the_way if write.shard.partition == partition]
        self.host.disk.on_the_way = [write for write in on_the_way if write not in mine]
        for write in mine[: self.random.randint(0, len(mine))]:
            self.host.disk.keep(write)
        for write in mine:
            self.host.runtime.write_failed(write, self.random.choice(COME_AGAIN))
        self.host.settle()
        self.failures += 1
        self.tell(f"disk of partition {partition} fails")

    def shards_load(self) -> None:
        for shard in self.host.runtime.shards:
            if shard.status is not Status.ACTIVE:
                self.load(shard)
        self.host.settle()

    def load(self, shard: Shard[ShardState]) -> None:
        once = hard_state(self.replayed(self.log(shard.partition)))
        assert hard_state(self.replayed(self.log(shard.partition) * 2)) == once, "a log replayed upon itself"
        self.host.load_shard(shard)
        self.tell(f"partition {shard.partition} is loaded: {once}")

    def log(self, partition: int) -> list[bytes]:
        return self.host.disk.batches.get(partition, [])

    def replayed(self, log: list[bytes]) -> ShardState:
        """The state that a log gives, whatever shard it is of."""
        shard = GroupRuntime(self.host.config, self.host.topics, Random(0), 1).shards[0]
        for batch in log:
            list(shard.load_chunk(batch, len(batch)))
        return shard.state

    def broker_crashes(self) -> None:
        """What was on the way is lost, but for the first few writes: the page cache may have had them."""
        on_the_way = self.host.disk.on_the_way
        for write in on_the_way[: self.random.randint(0, len(on_the_way))]:
            self.host.disk.keep(write)
        for client in self.clients:
            client.disconnect()
        self.host.crash(load=False)
        self.crashes += 1
        self.tell("the broker crashes")

    def retention_is_checked(self) -> None:
        if all(shard.status is Status.ACTIVE for shard in self.host.runtime.shards):
            self.host.expire_offsets()

    def check_everyone_is_answered(self) -> None:
        open_calls = [call for call in self.host.open_calls if id(call) not in self.gone]
        assert open_calls == [], "everyone is answered"

    def check_replay(self) -> list[Any]:
        """What runs is what a replay of the log gives."""
        live = [hard_state(shard.state) for shard in self.host.runtime.shards]
        assert [hard_state(self.replayed(self.log(partition))) for partition in range(len(live))] == live
        return live


def compacted(log: list[bytes], end: int, keeps_tombstones: bool) -> list[bytes]:
    """The log as a cleaner leaves it that went as far as `end`: of each key the last record."""
    cleaned = [record for batch in log[:end] for record in read_records(batch)]
    newest = {record.key: record.offset for record in cleaned}
    kept = [
        record
        for record in cleaned
        if newest[record.key] == record.offset and (keeps_tombstones or record.value is not None)
    ]
    return [
        *(build_batch([(record.key, record.value)], timestamp=0, base_offset=record.offset) for record in kept),
        *log[end:],
    ]


# --- hard state


def hard_state(state: ShardState) -> Any:
    """What a log can say: of groups, and of offsets."""
    classic = {
        group.group_id: (
            group.state.value,
            group.generation,
            group.protocol_type,
            group.protocol_name,
            group.leader_id,
            sorted((m.member_id, m.instance_id or "", m.assignment.hex()) for m in group.members.values()),
        )
        for group in state.groups.values()
        if isinstance(group, ClassicGroup)
    }
    consumer = [(group.group_id, hard_consumer(group)) for group in consumer_groups(state)]
    shared = [(each.group_id, hard_share(each)) for each in state.groups.values() if isinstance(each, ShareGroup)]
    offsets = sorted((place, offset.offset) for place, offset in state.offsets.all_offsets())
    newer = [sorted(some) for some in (consumer, shared) if some]
    return (sorted(classic.items()), *newer, offsets)


def consumer_groups(state: ShardState) -> list[ConsumerGroup]:
    return [group for group in state.groups.values() if isinstance(group, ConsumerGroup)]


def hard_consumer(group: ConsumerGroup) -> Any:
    return (
        group.epoch,
        group.metadata_hash,
        group.assignment_epoch,
        group.assignment_timestamp,
        sorted(hard_member(member) for member in group.members.values()),
        sorted((member_id, _sorted(target)) for member_id, target in group.targets.items()),
        sorted((regex, *resolved) for regex, resolved in group.subscriptions.resolved.items()),
    )


def hard_share(group: ShareGroup) -> Any:
    return (
        group.epoch,
        group.metadata_hash,
        group.assignment_epoch,
        group.assignment_timestamp,
        sorted((*_all_but_assigned(member), _sorted(member.assigned)) for member in group.members.values()),
        sorted((member_id, _sorted(target)) for member_id, target in group.targets.items()),
        [sorted((topic_id.hex(), topic) for topic_id, topic in topics.items()) for topics in group.states],
    )


def _all_but_assigned(member: ShareMember) -> tuple[Any, ...]:
    return member.member_id, member.epoch, member.previous_epoch, member.rack_id or "", member.topic_names


def hard_member(member: ConsumerMember) -> Any:
    return (
        member.member_id,
        member.epoch,
        member.previous_epoch,
        member.state,
        member.instance_id or "",
        member.rebalance_timeout_ms,
        member.topic_names,
        member.topic_regex or "",
        member.server_assignor or "",
        _with_epochs(member.assigned),
        _with_epochs(member.pending_revocation),
        () if member.classic is None else member.classic,
    )


def _sorted(target: Any) -> list[tuple[str, list[int]]]:
    return sorted((topic_id.hex(), sorted(partitions)) for topic_id, partitions in target.items())


def _with_epochs(partitions: Partitions) -> list[tuple[str, list[tuple[int, int]]]]:
    return sorted((topic_id.hex(), sorted(owned.items())) for topic_id, owned in partitions.items())
