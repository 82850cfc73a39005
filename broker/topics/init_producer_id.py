"""InitProducerId (22): gives a producer its id (KIP-98).

v2 is flexible; v3 lets a producer go on with its id (KIP-360); v4 and v5 are for transactions. Producers with a
transactional id are the affair of the transaction coordinator: coordinator/transactions/init_producer_id.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.broker.topics.producer_ids import take_producer_id
from kohort.broker.transactions.first_use import begin_to_use, is_in_use
from kohort.coordinator.outcome import Parked
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.call import Call
    from kohort.coordinator.api import Steps


def init_producer_id(
    broker: Broker, request: InitProducerIdRequest, call: Call
) -> InitProducerIdResponse | Parked | Steps[InitProducerIdResponse | Parked]:
    if request.transactional_id is not None:
        return _ask_coordinator(broker, request, call) if is_in_use(broker) else _first_use(broker, request, call)
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        return InitProducerIdResponse(0, ErrorCode.INVALID_REQUEST, -1, -1)
    producer_id = take_producer_id(broker, call.now)
    if producer_id is None:
        return InitProducerIdResponse(0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1, -1)  # clients try again
    return InitProducerIdResponse(0, 0, producer_id, 0)


def _first_use(broker: Broker, request: InitProducerIdRequest, call: Call) -> Steps[InitProducerIdResponse | Parked]:
    yield from begin_to_use(broker)
    call.now, call.steady_ms = broker.clock.now_ms(), broker.clock.steady_ms()
    return _ask_coordinator(broker, request, call)


def _ask_coordinator(broker: Broker, request: InitProducerIdRequest, call: Call) -> InitProducerIdResponse | Parked:
    from kohort.coordinator.transactions.init_producer_id import INIT_PRODUCER_ID  # most producers do without

    assert request.transactional_id is not None
    return broker.transactions.submit(request.transactional_id, INIT_PRODUCER_ID, request, call)
