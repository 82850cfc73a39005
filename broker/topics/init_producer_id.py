"""InitProducerId (22): gives an idempotent producer its id (KIP-98).

v2 is flexible; v3 lets a producer go on with its id (KIP-360); v4 and v5 are for transactions. Kohort has no
transactions yet, so nobody may use a transactional id: TRANSACTIONAL_ID_AUTHORIZATION_FAILED. Every client gives up at
once on this error. UNSUPPORTED_VERSION would say more, but librdkafka asks again and again until its timeout.

Ids come from blocks of 1000. The end of a block is saved before its first id is used, so that no id is given twice,
whatever happens:

    kohort-producer-ids.json    {"version": 1, "next_block": 3000}
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

from kohort.broker.unserved import TRANSACTIONS, unserved
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kohort.storage.errors import FileDamaged

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.call import Call

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


def init_producer_id(broker: Broker, request: InitProducerIdRequest, call: Call) -> InitProducerIdResponse:
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        return InitProducerIdResponse(0, ErrorCode.INVALID_REQUEST, -1, -1)
    if request.transactional_id == "":
        return InitProducerIdResponse(0, ErrorCode.INVALID_REQUEST, -1, -1)
    if request.transactional_id is not None:
        host = call.client_host.removeprefix("/")
        who, asked = f"{host} (client id {call.client_id!r})", f"the transactional id {request.transactional_id!r}"
        unserved(broker).tell(host, call.client_id, who, asked, TRANSACTIONS.what, TRANSACTIONS.instead)
        return InitProducerIdResponse(0, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, -1, -1)
    ids: ProducerIds | None = broker.extra.get("producer_ids")
    if ids is None:
        ids = broker.extra["producer_ids"] = ProducerIds(broker)
    try:
        producer_id = ids.take(call.now, data_is_foreign=bool(broker.logs.logs))
    except (OSError, FileDamaged) as problem:
        logger.error("a producer gets no id, because a block of ids could not be written down: %s", problem)
        return InitProducerIdResponse(0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1, -1)  # clients try again
    return InitProducerIdResponse(0, 0, producer_id, 0)
