"""How clients read with isolation.level=read_committed: they leave out what the answer says was aborted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kohort.protocol.messages.fetch import PartitionData
from kohort.protocol.record_batch import LOG_OVERHEAD_BYTES, parse_header, parse_marker, read_records


class Seen(NamedTuple):
    offset: int
    value: bytes | None
    key: bytes | None = None


def committed(answer: PartitionData, offset: int) -> tuple[list[Seen], int]:
    """(the records from `offset` on that an application gets, the offset to fetch next): as the Java consumer."""
    data = bytes(answer.records or b"")
    waiting = sorted((each.first_offset, each.producer_id) for each in answer.aborted_transactions or ())
    aborted: set[int] = set()
    seen: list[Seen] = []
    position = 0
    while position + LOG_OVERHEAD_BYTES <= len(data):
        header = parse_header(data, position) if position + 61 <= len(data) else None
        if header is None or position + header.size_bytes > len(data):
            break  # the last batch of the answer is cut
        while waiting and waiting[0][0] <= header.last_offset:
            aborted.add(waiting.pop(0)[1])
        records = list(read_records(data, position, header=header))
        if header.is_control:
            for record in records:
                marker = parse_marker(record.key, record.value)
                if marker is not None and not marker.commit:
                    aborted.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborted):
            seen += [Seen(record.offset, record.value, record.key) for record in records if record.offset >= offset]
        position += header.size_bytes
        offset = max(offset, header.next_offset)
    return seen, offset


def values(seen: Iterable[Seen]) -> list[bytes | None]:
    return [each.value for each in seen]
