"""The acknowledgements of one request, in a ShareAcknowledge or beside a ShareFetch.

The lists of all partitions are checked first, as far as that is possible without their records. Then each list is given
to its share partition. The answer waits until all of them are written, or could not be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from kohort.broker.share.persister import SharePartitionKey
from kohort.broker.share.share_partitions import share_partitions_of
from kohort.coordinator.delivery.states import REJECT, RENEW, Acknowledgement
from kohort.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.share.sessions import Key
    from kohort.broker.steps import Steps

FIRST_VERSION_WITH_RENEW: Final = 2
BATCHES_PER_STEP: Final = 500
PER_STEP: Final = 100  # partitions
NOT_HERE: Final = "This server does not host this topic-partition."

Result = tuple[ErrorCode, "str | None"]
FINE: Final[Result] = (ErrorCode.NONE, None)


class AskedBatch(Protocol):
    first_offset: int
    last_offset: int
    acknowledge_types: Sequence[int]


class AskedPartition(Protocol):
    partition_index: int

    @property
    def acknowledgement_batches(self) -> Sequence[AskedBatch]: ...


class AskedTopic(Protocol):
    topic_id: bytes

    @property
    def partitions(self) -> Sequence[AskedPartition]: ...


class Acknowledging:
    """Knows the result of each partition, once `is_done`. Then it calls what `then` was given."""

    __slots__ = (
        "_broker", "_group_id", "_is_complete", "_member_id", "_names_batches", "_then", "_unwritten", "results",
    )  # fmt: skip

    def __init__(self, broker: Broker, group_id: str, member_id: str) -> None:
        self._broker = broker
        self._group_id = group_id
        self._member_id = member_id
        self._unwritten = 0
        self._is_complete = False  # the writes of all partitions have been started
        self._names_batches = False
        self._then: Callable[[], object] | None = None
        self.results: dict[Key, Result] = {}

    @property
    def is_done(self) -> bool:
        return self._is_complete and not self._unwritten

    def then(self, go_on: Callable[[], object]) -> None:
        """Call `go_on` once everything is written, or at once if it is."""
        if self.is_done:
            go_on()
        else:
            self._then = go_on

    def begin(self, topics: Iterable[AskedTopic], version: int, *, is_renewal: bool) -> Steps[None]:
        asked = yield from self._check(topics, version, is_renewal=is_renewal)
        if not self._names_batches:  # Kafka's answer names partitions without acknowledgements only beside others
            for key in asked:
                del self.results[key]
        led = share_partitions_of(self._broker)
        for key, acknowledgements in asked.items():
            if acknowledgements:
                found = led.get(SharePartitionKey(self._group_id, *key))
                if found is None:
                    self.results[key] = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NOT_HERE)
                else:
                    self._unwritten += 1
                    found.acknowledge(self._member_id, acknowledgements, self._written_for(key))
            yield
        self._is_complete = True
        self._maybe_done()

    def _written_for(self, key: Key) -> Callable[[ErrorCode, str | None], None]:
        def written(error: ErrorCode, message: str | None) -> None:
            self.results[key] = (error, message)
            self._unwritten -= 1
            self._maybe_done()

        return written

    def _maybe_done(self) -> None:
        if self.is_done and self._then is not None:
            then, self._then = self._then, None
            then()

    # --- checks

    def _check(
        self, topics: Iterable[AskedTopic], version: int, *, is_renewal: bool
    ) -> Steps[dict[Key, list[Acknowledgement]]]:
        """The acknowledgements that may be made. The others have their result; those with nothing to do have FINE."""
        asked: dict[Key, list[Acknowledgement]] = {}
        with_batches: dict[Key, bool] = {}
        highest = RENEW if version >= FIRST_VERSION_WITH_RENEW else REJECT
        for topic in topics:
            known = self._broker.catalog.by_id(topic.topic_id)
            for number, partition in enumerate(topic.partitions):
                if number % PER_STEP == 0:
                    yield
                key = topic.topic_id, partition.partition_index
                batches = partition.acknowledgement_batches
                found = yield from _checked(batches, highest, self._start_of(key), is_renewal=is_renewal)
                asked.pop(key, None)  # if a partition is named twice, what is said last holds
                with_batches.pop(key, None)
                if known is None:
                    self.results[key] = (ErrorCode.UNKNOWN_TOPIC_ID, None)
                elif found is None:
                    self.results[key] = (ErrorCode.INVALID_REQUEST, None)
                elif not 0 <= partition.partition_index < len(known.partitions):
                    self.results[key] = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
                else:
                    with_batches[key] = bool(batches)
                    self.results[key] = FINE
                    asked[key] = found
        self._names_batches = any(with_batches.values())
        return asked

    def _start_of(self, key: Key) -> int:
        """The share partition's start offset: what is below it is final, and will be."""
        led = share_partitions_of(self._broker).get(SharePartitionKey(self._group_id, *key))
        return led.share.window.start if led is not None and led.share is not None else -1


def _checked(
    batches: Sequence[AskedBatch], highest: int, start: int, *, is_renewal: bool
) -> Steps[list[Acknowledgement] | None]:
    """The batches, without those that have no effect. None: a batch is wrong, or they are not in order."""
    found: list[Acknowledgement] = []
    previous_last = -1
    for number, batch in enumerate(batches, 1):
        first, last, types = batch.first_offset, batch.last_offset, batch.acknowledge_types
        if first > last or first < previous_last or not types:
            return None
        if len(types) > 1 and last - first != len(types) - 1:
            return None
        if min(types) < 0 or max(types) > highest or (not is_renewal and RENEW in types):
            return None
        is_same = bool(found) and found[-1][:2] == (first, last) and types[0] == RENEW == found[-1].types[0]
        if last >= start and not (is_same and first == last):  # a record can be renewed any number of times
            found.append(Acknowledgement(first, last, types))
        previous_last = last
        if number % BATCHES_PER_STEP == 0:
            yield
    return found
