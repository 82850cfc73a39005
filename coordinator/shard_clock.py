"""What time it is for the members of one shard.

Deadlines of sessions and rebalances count *shard time*. It passes as the host's steady clock says, whatever happens to
the wall clock. It stands still while a write takes so long that members, whose answers wait for it, cannot be heard:
a disk that stalls must not look like a silent group. Records carry *wall time*, and nothing else does.
"""

from __future__ import annotations

STALL_MS = 1_000  # a write that takes longer stops the clock until it is done
NEVER = 1 << 62


class ShardClock:
    __slots__ = ("loaded_wall", "steady_ms", "stood_still_ms", "stops_at", "wall")

    def __init__(self) -> None:
        self.steady_ms = 0  # the host's steady clock when the event in progress began
        self.wall = 0  # its wall time, milliseconds since 1970
        self.loaded_wall = 0  # when the log was loaded; 0: it is new
        self.stood_still_ms = 0  # how far shard time is behind the steady clock
        self.stops_at = NEVER  # on the steady clock: time stands still from then on

    def set(self, steady_ms: int, wall_ms: int) -> None:
        """Set the clock for the next event: a request, a deadline, a deleted topic."""
        self.steady_ms = steady_ms
        self.wall = wall_ms

    @property
    def now(self) -> int:
        """Shard time of the event in progress, milliseconds."""
        steady_ms, stops_at = self.steady_ms, self.stops_at  # not min(), which is a slower call
        return (steady_ms if steady_ms < stops_at else stops_at) - self.stood_still_ms

    def write_begins(self, steady_ms: int) -> None:
        """A write has begun, and is the only one in flight. The clock stops unless the write ends in time."""
        self.stops_at = steady_ms + STALL_MS

    def write_ends(self, steady_ms: int, oldest_begun: int | None) -> bool:
        """A write is done; the oldest that is still in flight began at `oldest_begun`. True if the clock had stopped.

        Shard time never jumps: it goes on standing still while another old write is in flight.
        """
        late_ms = steady_ms - self.stops_at
        if oldest_begun is None:
            self.stops_at = NEVER
        else:
            self.stops_at = max(oldest_begun + STALL_MS, steady_ms if late_ms > 0 else 0)
        if late_ms < 0:
            return False
        self.stood_still_ms += late_ms
        return True  # also if it stood still for 0 ms: `on_steady_clock` returned None in that millisecond

    def on_steady_clock(self, deadline: int, steady_ms: int) -> int | None:
        """When a deadline of shard time comes. None while the clock stands still: that is not known yet."""
        return None if steady_ms >= self.stops_at else deadline + self.stood_still_ms
