"""Classic groups: consumers that come, go, hang and die. Checked after each event:

    a partition has one owner in a generation
    generations never go back
    an acknowledged offset is never lost and never moves back, over any crash and reload
    a call is answered once, and always, unless its connection is gone (Call.reply refuses a second answer)
    the members, waiting calls and deadlines of every group agree with its state
    replaying a log twice, or upon itself, gives the same state, and what runs is what a replay gives

At the end nothing goes wrong any more for a while: then every group must be stable with all partitions owned.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random

from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.classic.state import COMPLETING_REBALANCE, EMPTY, PREPARING_REBALANCE, STABLE
from kohort.coordinator.outcome import Record
from kohort.coordinator.shard import Shard
from kohort.coordinator.shard_state import ShardState
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.log_records import GROUP_METADATA, decode_key
from kohort.protocol.messages.log_group_metadata import GroupMetadataKey
from kohort.protocol.record_batch import read_records
from kohort.protocol.subscription import read_assignment
from tests.coordinator.members import fetched
from tests.coordinator.support import Call, Host
from tests.group_requests import subscription
from tests.simulation.classic_client import PARTITIONS, TOPIC, ClassicClient
from tests.simulation.world import COME_AGAIN, Chances, World

GROUPS = ("alpha", "beta", "gamma")
CLIENTS = 9
CALM_MS = 600_000  # longer than a new member may take to join


class ClassicWorld(World):
    def __init__(self, seed: int) -> None:
        random = Random(seed)
        host = Host(
            seed=seed, partition_count=2, initial_rebalance_delay_ms=random.choice((0, 500, 3_000)),
            max_size=random.choice((2, 4, 100)),
        )  # fmt: skip
        super().__init__(seed, random, host)
        self.host.on_reply = self._heard
        self.clients: list[ClassicClient] = [self._client(n) for n in range(CLIENTS)]
        self._sent: dict[tuple[str, int], int] = {}
        self._acknowledged: dict[tuple[str, int], int] = {}
        self._seen: dict[tuple[str, int], int] = {}
        self._owners: dict[tuple[str, int, int, int], str] = {}
        self._newest: dict[tuple[str, int], int] = {}  # generation that somebody was assigned in, by incarnation
        self._tombstones: dict[int, tuple[int, Counter[str]]] = {}  # per partition: batches read, groups deleted
        self.assignments = 0

    def _client(self, n: int) -> ClassicClient:
        group = GROUPS[n % len(GROUPS)]
        return ClassicClient(self, f"client{n}", group, f"desk{n}" if self.random.random() < 0.3 else None)

    def chances(self) -> Chances:
        return [
            (0.60, self.someone_acts),
            (0.13, self.time_passes),
            (0.20, self.disk_writes),
            (0.04, self.shards_load),
            (0.02, self.disk_fails),
            (0.005, self.broker_crashes),
            (0.005, self.retention_is_checked),
        ]

    # --- what clients say, and ask

    def next_offset(self, group_id: str, partition: int) -> int:
        self._sent[group_id, partition] = self._sent.get((group_id, partition), 0) + 1
        return self._sent[group_id, partition]

    def acknowledged(self, group_id: str, partition: int, offset: int) -> None:
        key = group_id, partition
        self._acknowledged[key] = max(offset, self._acknowledged.get(key, 0))

    def acknowledged_of(self, group_id: str) -> dict[int, int]:
        """What a fetch that is sent now must at least find."""
        known = {partition: self._acknowledged.get((group_id, partition), -1) for partition in range(PARTITIONS)}
        return {partition: max(floor, self._seen.get((group_id, partition), -1)) for partition, floor in known.items()}

    def fetched(self, client: ClassicClient, call: Call, floor: dict[int, int]) -> None:
        answer = call.answer
        errors = {p.error_code for topic in answer.topics for p in topic.partitions} if call.version < 8 else set()
        errors |= {answer.error_code if call.version < 8 else answer.groups[0].error_code}
        if errors != {0}:
            assert errors <= {0, *COME_AGAIN}, errors
            return
        for (_, partition), found in fetched(call).items():
            offset = found.committed_offset
            assert offset >= floor[partition], (client.member.group_id, partition, offset, floor[partition])
            key = client.member.group_id, partition
            self._seen[key] = max(offset, self._seen.get(key, -1))

    # --- what they hear

    def _heard(self, call: Call) -> None:
        if call.api_key not in (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP) or call.answer.error_code:
            return
        if call.api_key == ApiKey.JOIN_GROUP:
            self._joined(call.request.group_id, call.answer.generation_id)
        else:
            request, assigned = call.request, call.answer.assignment
            topics = read_assignment(assigned).assigned_partitions if assigned else ()
            owned = [partition for topic in topics for partition in topic.partitions]
            who = request.group_instance_id or request.member_id
            self._assigned(request.group_id, request.generation_id, who, owned)

    def _joined(self, group_id: str, generation: int) -> None:
        durable, on_the_way = self._deletions(group_id)
        if not on_the_way:
            newest = self._newest.get((group_id, durable), 0)
            assert generation >= newest, (group_id, generation, newest)

    def _assigned(self, group_id: str, generation: int, who: str, owned: list[int]) -> None:
        incarnation, on_the_way = self._deletions(group_id)
        if on_the_way:
            return  # it is being deleted: not a member's answer, and it will come to nothing
        newest = self._newest.get((group_id, incarnation), 0)
        assert generation >= newest, (group_id, who, generation, newest)
        self._newest[group_id, incarnation] = generation
        for partition in owned:
            owner = self._owners.setdefault((group_id, incarnation, generation, partition), who)
            assert owner == who, f"{partition} of {group_id} belongs to {owner} and {who}"
        self.assignments += 1

    def _deletions(self, group_id: str) -> tuple[int, bool]:
        """How often the group was deleted, by the log; and whether that is about to happen once more.

        A group that was deleted starts again from generation 0.
        """
        shard = self.host.shard_of(group_id)
        read, counts = self._tombstones.setdefault(shard.partition, (0, Counter()))
        batches = self.host.disk.batches.get(shard.partition, [])
        for batch in batches[read:]:
            counts.update(deleted_groups(batch))
        self._tombstones[shard.partition] = len(batches), counts
        ready = (
            each.key.group
            for each in shard.unwritten
            if isinstance(each, Record) and isinstance(each.key, GroupMetadataKey) and each.value is None
        )
        writing = (group for write in shard.in_flight for batch in write.batches for group in deleted_groups(batch))
        return counts[group_id], group_id in ready or group_id in writing

    # --- what must hold

    def check(self) -> None:
        for shard in self.host.runtime.shards:
            for group in shard.state.groups.values():
                assert isinstance(group, ClassicGroup)
                check_group(shard, group)

    def calm_down(self) -> None:
        """Everyone is answered, and every group that has members becomes stable."""
        self.host.disk_catches_up()
        self.host.load()
        for client in self.clients:
            client.is_alive = True
            # A loaded group knows only the protocol it had chosen: who does not list it cannot come back.
            client.member.protocols = [(name, subscription(TOPIC)) for name in ("range", "sticky")]
        until = self.host.now + CALM_MS
        while self.host.now < until and not self._everyone_consumes():
            for client in self.clients:
                client.go_on()
            self.host.advance(1_000)
            self.check()
        assert self._everyone_consumes(), [self.host.describe(group_id) for group_id in GROUPS]
        self.check_everyone_is_answered()
        self._check_end()

    def _everyone_consumes(self) -> bool:
        """All partitions are owned, nobody waits: who is no member was refused because the group is full."""
        for group_id in GROUPS:
            clients = [client for client in self.clients if client.member.group_id == group_id]
            owned = sorted(partition for client in clients for partition in client.owned if client.is_stable)
            consuming = sum(client.is_stable for client in clients)
            if owned != list(range(PARTITIONS)) or consuming < min(len(clients), self.host.config.max_size):
                return False
            if self.host.state(group_id) != "Stable" or any(client.call is not None for client in clients):
                return False
        return True

    def _check_end(self) -> None:
        live = self.check_replay()
        self.host.crash()
        for (group_id, partition), offset in self._acknowledged.items():
            stored = self.host.state_of(group_id).offsets.get(group_id, TOPIC, partition)
            assert stored is not None
            assert offset <= stored.offset <= self._sent[group_id, partition]
        self.tell(f"end: {live}")


def deleted_groups(batch: bytes) -> Iterator[str]:
    for record in read_records(batch):
        assert record.key is not None
        kind, key = decode_key(record.key)
        if kind == GROUP_METADATA and record.value is None:
            yield key.group


def check_group(shard: Shard[ShardState], group: ClassicGroup) -> None:
    """Members, waiting calls and deadlines agree with the state."""
    members, purgatory = group.members, shard.state.purgatory
    assert set(group.pending_syncs) <= set(members)
    assert not set(group.pending_joins) & set(members)
    assert {i: m.member_id for m in members.values() if (i := m.instance_id)} == group.static_members
    assert group.known_by == Counter(name for m in members.values() for name in {name for name, _ in m.protocols})
    assert group.leader_id is None or group.leader_id in members, group.leader_id
    assert (group.leader_id is None) == (not members), group.leader_id
    assert purgatory.is_watched(("join", group.group_id)) == (group.state is PREPARING_REBALANCE)
    joining = [m for m in members.values() if m.awaiting_join is not None]
    syncing = [m for m in members.values() if m.awaiting_sync is not None]
    if group.state is EMPTY:
        assert not members
    if group.state is not PREPARING_REBALANCE:
        assert not joining
    if group.state is not COMPLETING_REBALANCE:
        assert not syncing
    if group.state in (STABLE, COMPLETING_REBALANCE):
        assert members
        assert group.protocol_name is not None
    for member in members.values():
        parked = member.awaiting_join is not None or member.awaiting_sync is not None
        # In a large group sessions begin piece by piece.
        is_watched = purgatory.is_watched(("session", group.group_id, member.member_id)) or shard.jobs
        assert parked or is_watched, member
