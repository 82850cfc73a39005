"""Random trouble that a broker and a network may lawfully make, at random requests, from a seed.

    with kafka.chaos(seed=7):
        ...                                 # your consumers do their work
    print(chaos.troubles)

A good consumer does its work all the same: the trouble takes no records and no commits away. What happens, and at which
request, follows from the seed and from the requests that come: chaos counts requests, not seconds. So the same requests
meet the same trouble. A consumer whose threads and timers send other requests the next time meets it elsewhere.

A restart needs a thread, because it takes the broker's event loop down. The request that it falls upon is lost, and no
request is counted until the broker is up again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random
from types import TracebackType
from typing import TYPE_CHECKING

from kohort.broker.call import NoAnswer
from kohort.coordinator.outcome import PARKED, Parked
from kohort.coordinator.transactions.transaction_state import ONGOING
from kohort.testing.faults import CloseAfter, CloseBefore, Delay, Fault, Filter, LoseAnswer
from kohort.testing.group import Seen as SeenGroup
from kohort.testing.host import NotRunning
from kohort.testing.names import UnknownName, did_you_mean
from kohort.testing.transaction import abort, known_transactions

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.protocol.wire import Message
    from kohort.testing.host import Host
    from kohort.testing.watch import Asked, Seen

KINDS = ("delay", "disconnect", "expire", "rebalance", "restart")
# Only if a test asks for it: many clients take a transaction that was aborted by its coordinator for a fatal error.
OPTIONAL = ("time_out",)
EVERY = 40  # requests, on average
MAX_DELAY_MS = 500
REASON = "chaos"
EXPECTED = ("rebalance_storm",)  # what kafka.check() finds because of chaos, and not because of a consumer


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that chaos has done."""

    number: int  # 1 is the first
    at_request: int  # of those that chaos has counted
    kind: str
    what: str

    def __str__(self) -> str:
        return f"{self.number}. at request {self.at_request}: {self.what}"


class Chaos(Fault):
    """`kafka.chaos(seed)`. Like any fault it is in force until its `with` block ends, or until `stop` is called."""

    def __init__(self, host: Host, wanted: Filter, seed: int, every: int, kinds: Iterable[str] | None) -> None:
        super().__init__(host, wanted)
        if every < 1:
            raise ValueError(f"every={every}: chaos needs at least one request between two troubles")
        self.seed = seed
        self.troubles: list[Trouble] = []
        self.what = f"chaos with seed {seed}"
        self._kinds = _checked(kinds)
        self._random = Random(seed)
        self._every = every
        self._counted = 0
        self._next = self._gap()
        self._ended: Broker | None = None  # the broker that a restart has ended, or is about to end
        self._restarters: list[threading.Thread] = []
        self._problem: Exception | None = None  # of the last restart
        self._ways: dict[str, Callable[[Seen, Asked, float], Fault | str | None]] = {
            "delay": self._delay, "disconnect": self._disconnect, "expire": self._expire,
            "rebalance": self._rebalance, "restart": self._begin_restart, "time_out": self._time_out,
        }  # fmt: skip

    # --- what a test does

    def stop(self) -> None:
        """No more trouble. A restart in progress is finished first."""
        super().stop()
        for each in self._restarters:
            each.join()
        if self._problem is not None:
            problem, self._problem = self._problem, None
            raise problem

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if problem is not None:
            problem.add_note(str(self))

    def __str__(self) -> str:
        """What was done, for the report of a test that fails."""
        return "\n".join([f"{self.what}, {self._counted} requests:", *(f"    {each}" for each in self.troubles)])

    # --- on the broker's loop

    def meets(self, seen: Seen, asked: Asked) -> Message | NoAnswer | Parked | None:
        """Count the request, and make trouble if it is the one that was drawn."""
        if asked.broker is self._ended:
            return PARKED
        self._counted += 1
        if self._counted < self._next:
            return None
        self._next = self._counted + self._gap()
        kind, draw = self._random.choice(self._kinds), self._random.random()  # always both: the state changes no draw
        trouble = self._ways[kind](seen, asked, draw)
        if trouble is None:
            return None
        self.hits += 1
        what = trouble.what if isinstance(trouble, Fault) else trouble
        self.troubles.append(Trouble(self.hits, self._counted, kind, f"{what} ({seen.api} of {seen.client_id})"))
        seen.fault = f"{self.what}: {what}"
        self._host.watch.on_change()
        if isinstance(trouble, Fault):
            return trouble.instead(seen, asked)
        return PARKED if asked.broker is self._ended else None

    def _gap(self) -> int:
        return self._random.randint(1, 2 * self._every - 1)

    def _delay(self, seen: Seen, asked: Asked, draw: float) -> Fault:
        return Delay(self._host, self._wanted, round(1 + draw * (MAX_DELAY_MS - 1)) / 1000)

    def _disconnect(self, seen: Seen, asked: Asked, draw: float) -> Fault:
        """Before the request is handled, when it is handled and not answered, or after the answer.

        A member that loses the answer to its first JoinGroup leaves a member behind that nobody is. Its group would
        wait for that one until its session is over, 45 real seconds: so chaos loses no answer to a JoinGroup.
        """
        if draw < 1 / 3 or (draw < 2 / 3 and seen.api == "JoinGroup"):
            return CloseBefore(self._host, self._wanted)
        return (
            LoseAnswer(self._host, self._wanted, close=True) if draw < 2 / 3 else CloseAfter(self._host, self._wanted)
        )

    def _expire(self, seen: Seen, asked: Asked, draw: float) -> str | None:
        """Sorted by client ids and instance ids: member ids are random."""
        only = self._wanted.client_id
        found = [
            (group.group_id, each.client_id, each.instance_id or "", place, each.member_id, group)
            for group in self._groups()
            for place, each in enumerate(group.members)
            if only in (None, each.client_id) and not each.is_waiting  # Kafka ends no session of a member that waits
        ]
        if not found:
            return None
        name, client_id, *_, member_id, group = sorted(found, key=lambda each: each[:4])[int(draw * len(found))]
        group.expire(member_id)
        return f"the session of a member of {name!r} is over, client {client_id!r}"

    def _rebalance(self, seen: Seen, asked: Asked, draw: float) -> str | None:
        found = [group for group in self._groups() if group.members]
        if not found:
            return None
        group = found[int(draw * len(found))]
        group.rebalance(REASON)
        return f"group {group.group_id!r} rebalances"

    def _time_out(self, seen: Seen, asked: Asked, draw: float) -> str | None:
        known = known_transactions(asked.broker)
        found = sorted(name for name, each in known.items() if each.state is ONGOING)
        if not found:
            return None
        name = found[int(draw * len(found))]
        abort(asked.broker, name)
        return f"transaction {name!r} has timed out"

    def _begin_restart(self, seen: Seen, asked: Asked, draw: float) -> str:
        self._ended = asked.broker
        self._restarters.append(threading.Thread(target=self._restart, name="kohort-chaos", daemon=True))
        self._restarters[-1].start()
        return "the broker restarts"

    def _groups(self) -> list[SeenGroup]:
        shards = self._host.broker.coordinator.runtime.shards
        names = sorted(name for shard in shards for name in shard.state.groups if self._wanted.group in (None, name))
        return [SeenGroup(self._host, name) for name in names]

    # --- on a thread of its own

    def _restart(self) -> None:
        try:
            self._host.restart()
        except NotRunning:
            pass  # the test has stopped it meanwhile
        except Exception as problem:
            self._problem = problem


def _checked(kinds: Iterable[str] | None) -> tuple[str, ...]:
    chosen = KINDS if kinds is None else (kinds,) if isinstance(kinds, str) else tuple(kinds)
    for each in chosen:
        if each not in (*KINDS, *OPTIONAL):
            every = (*KINDS, *OPTIONAL)
            raise UnknownName(f"chaos has no {each!r}{did_you_mean(each, every)}; it has {', '.join(every)}")
    if not chosen:
        raise ValueError("chaos without any kind of trouble")
    return chosen
