"""Topics and records without a client library."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from kohort.protocol.record_batch import scan_records
from kohort.testing.names import did_you_mean
from kohort.testing.views import Record, TopicPartition

if TYPE_CHECKING:
    from kohort.broker.topics.catalog import Topic as BrokerTopic
    from kohort.testing.host import Host

Headers = Mapping[str, bytes | None] | Iterable[tuple[str, bytes | None]]


class UnknownTopic(LookupError):
    """There is no topic of this name."""


class Topic:
    """`kafka.topic("orders")`."""

    def __init__(self, host: Host, name: str) -> None:
        self._host = host
        self.name = name

    @property
    def partitions(self) -> int:
        return self._host.run(lambda: len(self._found().partitions))

    @property
    def end_offsets(self) -> dict[TopicPartition, int]:
        """The offset that the next record of each partition will get."""
        return self._host.run(
            lambda: {(self.name, each.index): each.high_watermark for each in self._found().partitions}
        )

    def records(self, partition: int | None = None) -> list[Record]:
        """What the topic holds, partition by partition, in the order of offsets."""
        return self._host.run(lambda: self._records(partition))

    def _found(self) -> BrokerTopic:
        catalog = self._host.broker.catalog
        found = catalog.get(self.name)
        if found is None:
            raise UnknownTopic(f"there is no topic {self.name!r}{did_you_mean(self.name, catalog.names())}")
        return found

    def _records(self, partition: int | None) -> list[Record]:
        found = []
        for each in self._found().partitions:
            if partition is None or each.index == partition:
                log = each.log
                for chunk, size in log.chunks():
                    for batch, offset, timestamp, key, value, headers in scan_records(chunk, 0, size):
                        if offset >= log.log_start_offset and not batch.is_control:
                            told = tuple((name.decode(), content) for name, content in headers)
                            found.append(Record(self.name, each.index, offset, key, value, told, timestamp))
        return found

    def __repr__(self) -> str:
        return f"Topic({self.name!r})"


def encoded_headers(headers: Headers | None) -> tuple[tuple[bytes, bytes | None], ...]:
    pairs = headers.items() if isinstance(headers, Mapping) else headers or ()
    return tuple((name.encode(), value) for name, value in pairs)
