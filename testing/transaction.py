"""A transactional id as a test sees it, and what a test can do to its producer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.broker.own_call import OwnCall
from kohort.coordinator.outcome import Parked
from kohort.coordinator.transactions.ending import fence
from kohort.coordinator.transactions.headers import Cause
from kohort.coordinator.transactions.init_producer_id import INIT_PRODUCER_ID
from kohort.coordinator.transactions.transaction_state import ONGOING, PREPARED, TransactionState
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kohort.testing.names import UnknownName, did_you_mean
from kohort.testing.off_loop import off_loop
from kohort.testing.views import TopicPartition

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.transactions.host import TransactionHost
    from kohort.coordinator.transactions.transaction import Transaction as KnownTransaction
    from kohort.testing.host import Host

DEAD = "Dead"
STATES = (*(state.value for state in TransactionState), DEAD)
TIMEOUT_S = 10.0
OTHER_TIMEOUT_MS = 60_000  # of the producer that takes the place of the fenced one


class UnknownTransaction(LookupError):
    """There is no such transactional id."""


class NoTransaction(RuntimeError):
    """The transactional id has no open transaction at the moment."""


class Transaction:
    """`kafka.transaction("shop")`. No producer need have used the transactional id: then it is Dead."""

    def __init__(self, host: Host, transactional_id: str) -> None:
        self._host = host
        self.transactional_id = transactional_id

    # --- looking

    @property
    def state(self) -> str:
        """As Kafka names it: Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort, or Dead."""
        return self._host.run(self._state)

    @property
    def is_open(self) -> bool:
        """Partitions or offsets were added, and the producer has neither committed nor aborted."""
        return self.state == ONGOING.value

    @property
    def producer_id(self) -> int | None:
        return self._host.run(lambda: None if (found := self._found()) is None else found.producer_id)

    @property
    def epoch(self) -> int | None:
        """It rises with each producer that begins to use the id, and with newer clients also with each transaction."""
        return self._host.run(lambda: None if (found := self._found()) is None else found.epoch)

    @property
    def partitions(self) -> list[TopicPartition]:
        """Those of the open transaction; of `__consumer_offsets`, those with the offsets of its groups."""
        return self._host.run(self._partitions)

    # --- waiting

    def wait_until(self, state: str, *, timeout: float = TIMEOUT_S) -> Transaction:
        """Wait until the transactional id is in this state; TimeoutError says in which it is instead."""
        if state not in STATES:
            raise UnknownName(f"Kafka has no transaction state {state!r}{did_you_mean(state, STATES)}")
        if not self._host.wait_for(lambda: self._state() == state, timeout):
            raise TimeoutError(f"transaction {self.transactional_id!r} is not {state} after {timeout:g} s: {self}")
        return self

    async def wait_until_async(self, state: str, *, timeout: float = TIMEOUT_S) -> Transaction:
        """`wait_until` for a test whose clients run on the event loop of this thread."""
        return await off_loop(lambda: self.wait_until(state, timeout=timeout))

    # --- making things happen

    def time_out(self) -> None:
        """Abort the open transaction now, as if it had taken longer than its timeout. Returns when it is aborted.

        The producer learns it with its next request. The clock stays as it is; `kafka.clock.advance` lets transactions
        time out, too.
        """
        self._host.run(lambda: abort(self._host.broker, self.transactional_id))
        self.wait_until("CompleteAbort")

    def fence(self) -> None:
        """Begin to use the transactional id, as another producer does. The one before is fenced: its requests are
        refused with PRODUCER_FENCED or INVALID_PRODUCER_EPOCH, and its open transaction is aborted.
        """
        self._host.run(self._need)
        while True:
            error = self._begin_to_use()
            if error is not ErrorCode.CONCURRENT_TRANSACTIONS:
                break
            if not self._host.wait_for(
                lambda: (known := self._found()) is None or known.state not in PREPARED, TIMEOUT_S
            ):
                break
        if error:
            raise RuntimeError(f"transaction {self.transactional_id!r} cannot be fenced: {error.name}; {self}")

    def _begin_to_use(self) -> ErrorCode:
        answers: list[InitProducerIdResponse] = []

        def ask() -> None:
            broker = self._host.broker
            request = InitProducerIdRequest(self.transactional_id, OTHER_TIMEOUT_MS, -1, -1)
            call = OwnCall(broker.clock, answers.append)
            answer = broker.transactions.submit(self.transactional_id, INIT_PRODUCER_ID, request, call)
            if not isinstance(answer, Parked):
                answers.append(answer)

        self._host.run(ask)
        if not self._host.wait_for(lambda: bool(answers), TIMEOUT_S):
            return ErrorCode.REQUEST_TIMED_OUT
        return ErrorCode(answers[0].error_code)

    def __str__(self) -> str:
        return self._host.run(lambda: told(self._host.broker, self.transactional_id))

    def __repr__(self) -> str:
        return f"Transaction({self.transactional_id!r})"

    # --- on the broker's loop

    def _found(self) -> KnownTransaction | None:
        return known_transactions(self._host.broker).get(self.transactional_id)

    def _need(self) -> KnownTransaction:
        return _need(self._host.broker, self.transactional_id)

    def _state(self) -> str:
        found = self._found()
        return DEAD if found is None else found.state.value

    def _partitions(self) -> list[TopicPartition]:
        found = self._found()
        return [] if found is None else _places(found)


def known_transactions(broker: Broker) -> dict[str, KnownTransaction]:
    """All transactional ids, on the broker's loop."""
    host: TransactionHost | None = broker.__dict__.get("transactions")
    shards = () if host is None else host.runtime.shards
    return {name: each for shard in shards for name, each in sorted(shard.state.transactions.items())}


def abort(broker: Broker, transactional_id: str) -> None:
    """Begin to abort the open transaction, as if it had taken longer than its timeout."""
    found = _need(broker, transactional_id)
    if found.state is not ONGOING:
        raise NoTransaction(f"transaction {transactional_id!r} is {found.state.value}: none is open that could end")
    host = broker.transactions
    shard = host.runtime.shard_of(transactional_id)
    shard.state.clock.set(broker.clock.steady_ms(), broker.clock.now_ms())
    out = fence(shard.state, found, Cause.TIMEOUT)
    assert out is not None, "there is no producer id"
    host.apply(shard, out)


def told(broker: Broker, transactional_id: str) -> str:
    found = known_transactions(broker).get(transactional_id)
    if found is None:
        return "no producer has used it"
    places = ", ".join(f"{topic}-{number}" for topic, number in _places(found)) or "no partitions"
    return f"it is {found.state.value}, producer {found.producer_id} in epoch {found.epoch}, with {places}"


def _need(broker: Broker, transactional_id: str) -> KnownTransaction:
    known = known_transactions(broker)
    if transactional_id not in known:
        perhaps = did_you_mean(transactional_id, list(known))
        raise UnknownTransaction(f"no producer has used the transactional id {transactional_id!r}{perhaps}")
    return known[transactional_id]


def _places(found: KnownTransaction) -> list[TopicPartition]:
    return sorted((topic, number) for topic, numbers in found.partitions.items() for number in numbers)
