"""Ids of producers: each is given once, whatever happens.

Ids come from blocks of 1000. The end of a block is saved before its first id is used:

    kohort-producer-ids.json    {"version": 1, "next_block": 3000}
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

from kohort.storage.errors import FileDamaged

if TYPE_CHECKING:
    from kohort.broker.broker import Broker

logger = logging.getLogger(__name__)

PRODUCER_IDS_FILE = "kohort-producer-ids.json"
BLOCK_SIZE = 1000


class ProducerIds:
    def __init__(self, broker: Broker) -> None:
        self._disk = broker.disk
        self._path = f"{broker.config.data_folder}/{PRODUCER_IDS_FILE}"
        self._next = self._end = 0

    def take(self, now: int, *, data_is_foreign: bool) -> int:
        if self._next == self._end:
            self._take_block(now, data_is_foreign)
        self._next += 1
        return self._next - 1

    def _take_block(self, now: int, data_is_foreign: bool) -> None:
        try:
            start = int(json.loads(self._disk.read_file(self._path))["next_block"])
        except (ValueError, LookupError, TypeError) as problem:
            raise FileDamaged(
                f"{self._path} is damaged: {problem}. It says which ids producers have. Put back a copy of it, or "
                "remove it: new ids are then far away from the old ones"
            ) from problem
        except FileNotFoundError:
            # Logs that Kafka wrote may remember producers with small ids: stay far away from them.
            start = now // BLOCK_SIZE * BLOCK_SIZE if data_is_foreign else 0
        content = json.dumps({"version": 1, "next_block": start + BLOCK_SIZE})
        self._disk.write_file(self._path, content.encode())
        self._next, self._end = start, start + BLOCK_SIZE


def take_producer_id(broker: Broker, now: int) -> int | None:
    """A new id. None: a block of ids could not be written down."""
    ids: ProducerIds | None = broker.extra.get("producer_ids")
    if ids is None:
        ids = broker.extra["producer_ids"] = ProducerIds(broker)
    try:
        return ids.take(now, data_is_foreign=broker.had_data)
    except (OSError, FileDamaged) as problem:
        logger.error("a producer gets no id, because a block of ids could not be written down: %s", problem)
        return None
