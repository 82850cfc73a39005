"""ListTransactions (66), v0-2: all transactional ids (KIP-664).

v1 filters by how long a transaction is open (KIP-994), v2 by a pattern, which must match the whole id. Names of states
are case-sensitive; unknown ones are named in the answer. While a shard is loading, the whole answer is an error
that tells the client to ask again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kohort.coordinator.api import Api, Everywhere, Steps, all_steps, in_slices
from kohort.coordinator.consumer.regex import Pattern, compile_pattern
from kohort.coordinator.outcome import Call
from kohort.coordinator.transactions import transaction_state
from kohort.coordinator.transactions.state import TransactionsState
from kohort.coordinator.transactions.transaction import Transaction
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

NO_FILTER = -1
IN_MEMORY_ONLY = ("Dead", "PrepareEpochFence")  # of Kafka: valid names that no transactional id has here
KNOWN_STATES = frozenset((*(state.value for state in transaction_state.TransactionState), *IN_MEMORY_ONLY))


class ShortRequest(ListTransactionsRequest):
    """The same filters, each value once. Names that are no states are put aside."""

    __slots__ = ("unknown_states",)

    def __init__(
        self, states: Sequence[str], unknown_states: Sequence[str], producer_ids: Sequence[int],
        request: ListTransactionsRequest,
    ) -> None:  # fmt: skip
        super().__init__(states, producer_ids, request.duration_filter, request.transactional_id_pattern)
        self.unknown_states = unknown_states


def list_transactions(
    state: TransactionsState, request: ListTransactionsRequest, call: Call
) -> ListTransactionsResponse:
    return all_steps(_list(state, request))


def _in_steps(
    state: TransactionsState, request: ListTransactionsRequest, call: Call, error: ErrorCode | None
) -> Steps[ListTransactionsResponse]:
    if error is not None:
        return _unavailable(state, request, call, error)
    return (yield from _list(state, request))


def _list(state: TransactionsState, request: ListTransactionsRequest) -> Steps[ListTransactionsResponse]:
    assert isinstance(request, ShortRequest)
    listed: list[TransactionState] = []
    if request.unknown_states and not request.state_filters:
        return ListTransactionsResponse(0, 0, request.unknown_states, listed)
    pattern = compile_pattern(request.transactional_id_pattern) if request.transactional_id_pattern else None
    states, producer_ids = frozenset(request.state_filters), frozenset(request.producer_id_filters)
    for some in in_slices(list(state.transactions.values())):
        chosen: Iterable[Transaction] = (
            each
            for each in some
            if (not states or each.state.value in states)
            and (not producer_ids or each.producer_id in producer_ids)
            and (request.duration_filter < 0 or state.clock.wall - each.started_ms > request.duration_filter)
        )
        if pattern is not None:
            chosen = yield from _matching(pattern, chosen)
        listed += [TransactionState(each.transactional_id, each.producer_id, each.state.value) for each in chosen]
        yield
    return ListTransactionsResponse(0, 0, request.unknown_states, listed)


def _matching(pattern: Pattern, transactions: Iterable[Transaction]) -> Steps[list[Transaction]]:
    by_id = {each.transactional_id: each for each in transactions}
    names = yield from pattern.matching(by_id)
    return [by_id[name] for name in names]


def short(request: ListTransactionsRequest) -> Steps[ListTransactionsRequest]:
    known: dict[str, None] = {}
    unknown: dict[str, None] = {}
    for names in in_slices(request.state_filters):
        for name in names:
            (known if name in KNOWN_STATES else unknown)[name] = None
        yield
    producer_ids: dict[int, None] = {}
    for ids in in_slices(request.producer_id_filters):
        producer_ids.update(dict.fromkeys(ids))
        yield
    return ShortRequest(list(known), list(unknown), list(producer_ids), request)


def _unavailable(
    state: TransactionsState, request: ListTransactionsRequest, call: Call, error: ErrorCode
) -> ListTransactionsResponse:
    is_loading = error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return ListTransactionsResponse(0, error if is_loading else 0)


def _failed(response: ListTransactionsResponse, version: int, error: ErrorCode) -> ListTransactionsResponse:
    """The shard is loaded again from its log, and the client must ask again."""
    return ListTransactionsResponse(0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


def whole(parts: Sequence[ListTransactionsResponse]) -> ListTransactionsResponse:
    if error := next((part.error_code for part in parts if part.error_code), 0):
        return ListTransactionsResponse(0, error)
    unknown = next((part.unknown_state_filters for part in parts if part.unknown_state_filters), ())
    return ListTransactionsResponse(0, 0, unknown, [each for part in parts for each in part.transaction_states])


LIST_TRANSACTIONS = Everywhere(Api(list_transactions, _unavailable, _failed, steps=_in_steps), whole, short)
