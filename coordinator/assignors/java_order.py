"""The order in which Java's HashMap, and Kafka's TimelineHashMap, go through their keys.

Kafka's server-side assignors go through members, topics and partitions in the order of such maps, and that order
decides who gets what. To give each member what Kafka would give it, we need the same order. Both maps put a key into a
slot by its hash, and go through the slots one after the other. Keys that share a slot are gone through in the order in
which they were put there; TimelineHashMap starts with the last of them.

The number of slots is a power of two. It grows with the keys, and never shrinks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

from kohort.coordinator.api import Steps, all_steps, in_slices
from kohort.coordinator.partitioner import java_hash

K = TypeVar("K")
V = TypeVar("V")

KEYS_IN_STEP = 20  # they take as long as a usual step of an assignor
USUAL_CAPACITY = 16
LONGEST_SLOT = (
    8  # one more key makes a small map grow; in a large map Java makes a tree of the slot, which is not done here
)
MIN_SLOTS_OF_TREES = 64
FEW_NUMBERS = LONGEST_SLOT  # so few cannot make a set of USUAL_CAPACITY grow, whatever slots they are in
_UINT32 = 0xFFFFFFFF
_UINT64 = 0xFFFFFFFFFFFFFFFF
_FIBONACCI = -7046029254386353131 & _UINT64


def hash_of_text(text: str) -> int:
    """String.hashCode, as an unsigned number."""
    return java_hash(text) & _UINT32


def hash_of_uuid(uuid: bytes) -> int:
    """Uuid.hashCode of Kafka: the four words of the id, all xored."""
    words = int.from_bytes(uuid[:8]) ^ int.from_bytes(uuid[8:])
    return (words >> 32) ^ (words & _UINT32)


def hash_of_number(number: int) -> int:
    return number


def capacity_for(size: int) -> int:
    """The slots of a HashMap that was made for so many slots: the next power of two."""
    return 1 << (size - 1).bit_length() if size > 1 else 1


def capacity_of_copy(size: int) -> int:
    """The slots of a HashSet that was made from a collection of so many."""
    return capacity_for(max(int(size / 0.75) + 1, USUAL_CAPACITY))


def grown_capacity(capacity: int, size: int) -> int:
    """The slots of a HashMap that had `capacity` of them and has got `size` keys."""
    while size > int(capacity * 0.75):
        capacity *= 2
    return capacity


def map_slot(hashed: int, capacity: int) -> int:
    """The slot of a HashMap for a key with this hash, which is unsigned."""
    return (hashed ^ hashed >> 16) & (capacity - 1)


class JavaMap(Generic[K, V]):
    """A HashMap. Java has two ways to put a key into it, which order the keys of a slot differently."""

    __slots__ = ("_capacity", "_first", "_hash_of", "_last", "_ranks", "entries")

    def __init__(self, hash_of: Callable[[K], int], capacity: int = USUAL_CAPACITY) -> None:
        self.entries: dict[K, V] = {}
        self._ranks: dict[K, int] = {}  # of keys in the same slot, the one with the lowest rank comes first
        self._first = self._last = 0  # ranks that were given
        self._capacity = capacity
        self._hash_of = hash_of

    def put(self, key: K, value: V) -> None:
        """HashMap.put: a new key goes behind the others in its slot. Then the map grows if it is too full."""
        self.entries[key] = value
        if key not in self._ranks:
            self._last += 1
            self._ranks[key] = self._last
        self._grow()

    def compute_if_absent(self, key: K, make: Callable[[], V]) -> V:
        """A new key goes before the others in its slot. The map grows before that, and even if the key is not new."""
        self._grow()
        if key not in self.entries:
            self.entries[key] = make()
            self._first -= 1
            self._ranks[key] = self._first
        return self.entries[key]

    def _grow(self) -> None:
        self._capacity = grown_capacity(self._capacity, len(self.entries))

    def remove(self, key: K) -> None:
        del self.entries[key], self._ranks[key]

    def keys(self) -> list[K]:
        return all_steps(self.keys_in_steps())

    def keys_in_steps(self) -> Steps[list[K]]:
        mask, hash_of, ranks = self._capacity - 1, self._hash_of, self._ranks
        places: dict[K, tuple[int, int]] = {}
        for some in in_slices(self.entries, KEYS_IN_STEP):
            for key in some:
                hashed = hash_of(key)
                places[key] = (hashed ^ hashed >> 16) & mask, ranks[key]  # as map_slot, without a call
            if len(some) == KEYS_IN_STEP:
                yield
        return sorted(self.entries, key=places.__getitem__)

    def items(self) -> list[tuple[K, V]]:
        entries = self.entries
        return [(key, entries[key]) for key in self.keys()]


def set_order(texts: Sequence[str]) -> Steps[list[str]]:
    """The texts, each of which is there once, in the order of a HashSet that was made from them."""
    found: JavaMap[str, None] = JavaMap(hash_of_text, capacity_of_copy(len(texts)))
    for some in in_slices(texts, KEYS_IN_STEP):
        for text in some:
            found.put(text, None)
        if len(some) == KEYS_IN_STEP:
            yield
    return (yield from found.keys_in_steps())


class JavaNumbers:
    """A HashSet of numbers that are not negative. Its order is nearly always that of the numbers."""

    __slots__ = ("_capacity", "_highest", "_numbers")

    def __init__(self, numbers: Sequence[int] = (), capacity: int | None = None) -> None:
        self._capacity = capacity_of_copy(len(numbers)) if capacity is None else capacity
        self._numbers: dict[int, None] = {}
        self._highest = max(numbers, default=0)  # of all that were ever in the set
        if self._highest < self._capacity:
            self._numbers.update(dict.fromkeys(numbers))  # at most one in a slot
        else:
            self.add_all(numbers)

    def add(self, number: int) -> None:
        numbers = self._numbers
        if number > self._highest:
            self._highest = number
        # Lower numbers cannot fill a slot.
        if self._highest >= LONGEST_SLOT * self._capacity and self._capacity < MIN_SLOTS_OF_TREES:
            self._grow_if_its_slot_is_full(number)
        numbers[number] = None
        while len(numbers) > int(self._capacity * 0.75):
            self._capacity *= 2

    def add_all(self, added: Sequence[int]) -> None:
        """Add them one after the other; at once, if none of them can fill a slot."""
        highest = max(self._highest, max(added, default=0))
        if highest >= LONGEST_SLOT * self._capacity and self._capacity < MIN_SLOTS_OF_TREES:
            for number in added:
                self.add(number)
        else:
            self._highest = highest
            self._numbers.update(dict.fromkeys(added))
            self._capacity = grown_capacity(self._capacity, len(self._numbers))

    def _grow_if_its_slot_is_full(self, number: int) -> None:
        slot = self._slot(number)
        others = (each for each in self._numbers if self._slot(each) == slot)
        if number not in self._numbers and sum(1 for _ in others) >= LONGEST_SLOT:
            self._capacity *= 2

    def remove(self, number: int) -> None:
        del self._numbers[number]

    def __len__(self) -> int:
        return len(self._numbers)

    def __contains__(self, number: int) -> bool:
        return number in self._numbers

    def ordered(self) -> list[int]:
        if self._highest < self._capacity:
            return sorted(self._numbers)
        return sorted(self._numbers, key=self._slot)  # stable: numbers of one slot stay as they were put

    def _slot(self, number: int) -> int:
        return (number ^ number >> 16) & (self._capacity - 1)


def order_of_few(numbers: list[int]) -> list[int]:
    """The order of a JavaNumbers of USUAL_CAPACITY to which these were added, at most FEW_NUMBERS: it has not grown."""
    return sorted(numbers, key=_usual_slot) if len(numbers) > 1 else numbers


def _usual_slot(number: int) -> int:
    return (number ^ number >> 16) & (USUAL_CAPACITY - 1)


def timeline_order(keys: Iterable[str], capacity: int) -> list[str]:
    """The keys of a TimelineHashMap, which were put into it in this order. `capacity`: see `timeline_capacity`."""
    return timeline_order_of({key: timeline_slot(java_hash(key), capacity) for key in keys})


def timeline_slot(hashed: int, capacity: int) -> int:
    """The slot of a TimelineHashMap for a key with this hash. Java keeps 64 bits of the product."""
    return (hashed * _FIBONACCI & _UINT64) >> (65 - capacity.bit_length())


def timeline_order_of(slots: dict[str, int]) -> list[str]:
    """As `timeline_order`, for callers who know the slots already."""
    backwards = list(slots)[::-1]
    return sorted(backwards, key=slots.__getitem__)


def timeline_capacity(capacity: int, size: int) -> int:
    """The slots of a TimelineHashMap that had `capacity` of them and is to hold `size` keys. It begins with 2."""
    while size * 0.75 > capacity:
        capacity *= 2
    return capacity
