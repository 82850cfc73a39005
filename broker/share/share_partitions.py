"""All share partitions that this broker leads and somebody fetches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeVar

from kohort.broker.share.deliveries import Deliveries
from kohort.broker.share.led_partition import LedPartition
from kohort.broker.share.locks import Locks
from kohort.broker.share.persister import SharePartitionKey

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.topics.catalog import Partition, Topic

EXTRA = "share_partitions"  # in Broker.extra
DROPPED_PER_TURN = 100  # each has a line in the log


def share_partitions_of(broker: Broker) -> SharePartitions:
    found: SharePartitions | None = broker.extra.get(EXTRA)
    if found is None:
        found = broker.extra[EXTRA] = SharePartitions(broker)
    return found


class SharePartitions:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._led: dict[SharePartitionKey, LedPartition] = {}
        self._by_group: dict[str, dict[SharePartitionKey, None]] = {}
        self._by_topic: dict[bytes, dict[SharePartitionKey, None]] = {}
        self.locks = Locks(broker)
        self.deliveries = Deliveries(broker, self)

    def __len__(self) -> int:
        return len(self._led)

    def __iter__(self) -> Iterator[LedPartition]:
        """As they are now: some may be dropped while somebody goes through them in steps."""
        return iter(list(self._led.values()))

    def get(self, key: SharePartitionKey) -> LedPartition | None:
        return self._led.get(key)

    def find_or_load(self, key: SharePartitionKey, partition: Partition) -> LedPartition:
        led = self._led.get(key)
        if led is None:
            led = self._led[key] = LedPartition(self._broker, self, key, partition)
            self._by_group.setdefault(key.group_id, {})[key] = None
            self._by_topic.setdefault(key.topic_id, {})[key] = None
            self.deliveries.begin()
            led.load()
        return led

    def of_group(self, group_id: str) -> list[LedPartition]:
        return [self._led[key] for key in self._by_group.get(group_id, ())]

    def drop(self, led: LedPartition) -> None:
        """Forget what is in memory; the next fetch reads what is persisted."""
        self._forget(led)
        if not led.is_gone:
            led.is_gone = True
            self.deliveries.tell(led)
            led.wake()

    def _forget(self, led: LedPartition) -> None:
        if self._led.get(led.key) is led:
            del self._led[led.key]
            _remove(self._by_group, led.key.group_id, led.key)
            _remove(self._by_topic, led.key.topic_id, led.key)

    def forget_group(self, group_id: str) -> None:
        """Nobody of the group fetches here any more, or its state was changed elsewhere."""
        self._drop_all(self.of_group(group_id))

    def _drop_all(self, doomed: list[LedPartition]) -> None:
        """Drop what is not needed any more, many in several turns. From now on nobody finds any of them."""
        for led in doomed:
            self._forget(led)
        some, rest = doomed[:DROPPED_PER_TURN], doomed[DROPPED_PER_TURN:]
        for led in some:
            self.drop(led)
        if rest:
            self._broker.call_later(0, lambda: self._drop_all(rest))

    def forget(self, topic: Topic) -> None:
        """The topic was deleted."""
        self._drop_all([self._led[key] for key in self._by_topic.get(topic.id, ())])


Index = TypeVar("Index")


def _remove(keys: dict[Index, dict[SharePartitionKey, None]], index: Index, key: SharePartitionKey) -> None:
    del keys[index][key]
    if not keys[index]:
        del keys[index]
