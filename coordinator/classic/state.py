"""The five states of a classic group, and from where each may be entered.

A group that is loaded from a log begins in the state that its last record says, Empty or Stable.
"""

from __future__ import annotations

from enum import Enum


class ClassicGroupState(Enum):
    EMPTY = "Empty"  # no members; offsets may remain, and ids may have been handed out
    PREPARING_REBALANCE = "PreparingRebalance"  # JoinGroup waits; heartbeats say so
    COMPLETING_REBALANCE = "CompletingRebalance"  # the leader is assigning; SyncGroup waits
    STABLE = "Stable"  # every member knows its partitions
    DEAD = "Dead"  # its shard no longer holds this object: the group was deleted, replaced, or is loaded anew


EMPTY = ClassicGroupState.EMPTY
PREPARING_REBALANCE = ClassicGroupState.PREPARING_REBALANCE
COMPLETING_REBALANCE = ClassicGroupState.COMPLETING_REBALANCE
STABLE = ClassicGroupState.STABLE
DEAD = ClassicGroupState.DEAD

ALLOWED_FROM: dict[ClassicGroupState, frozenset[ClassicGroupState]] = {
    EMPTY: frozenset((PREPARING_REBALANCE,)),
    PREPARING_REBALANCE: frozenset((EMPTY, COMPLETING_REBALANCE, STABLE)),
    COMPLETING_REBALANCE: frozenset((PREPARING_REBALANCE,)),
    STABLE: frozenset((COMPLETING_REBALANCE,)),
    DEAD: frozenset(ClassicGroupState),
}
