"""What became of each record of a share group, as the log of the share coordinator says: Kohort's, or Kafka's."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import NamedTuple

from kohort.coordinator.delivery.states import AVAILABLE
from kohort.protocol.record_batch import parse_header, read_records
from kohort.protocol.share_state_records import SHARE_GROUP_STATE, SHARE_SNAPSHOT

Place = tuple[int, int]  # partition and offset


class Verdict(NamedTuple):
    finished: int  # records that were accepted or archived
    finished_twice: int  # a record was accepted or archived, and then once more
    came_back: int  # a record was accepted or archived, and then available


def verdict(folder: Path) -> Verdict:
    """Of all records of the one topic that share groups read; `folder` has the data of the broker, which has ended."""
    finished: Counter[Place] = Counter()
    came_back = 0
    for path in sorted(folder.rglob("__share_group_state-*/*.log")):
        data, position = path.read_bytes(), 0
        while position < len(data):
            size = parse_header(data, position).size_bytes
            for record in read_records(data[position : position + size]):
                assert record.key is not None
                assert record.value is not None
                kind, key = SHARE_GROUP_STATE.decode_key(record.key)
                for batch in SHARE_GROUP_STATE.decode_value(kind, record.value).state_batches:
                    for offset in range(batch.first_offset, batch.last_offset + 1):
                        place = key.partition, offset
                        if batch.delivery_state == AVAILABLE:
                            came_back += place in finished
                            continue
                        if kind != SHARE_SNAPSHOT or place not in finished:  # a snapshot repeats what is known
                            finished[place] += 1
            position += size
    return Verdict(len(finished), sum(1 for times in finished.values() if times > 1), came_back)
