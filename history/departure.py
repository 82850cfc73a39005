"""How a member went: it left, fell silent, or was too slow. Inferred from its commits and its timeouts."""

from __future__ import annotations

from typing import NamedTuple

from kohort.history.members import Member
from kohort.history.rebalance import Rebalance, Removal, Sign
from kohort.history.words import duration

USUAL_INTERVAL_MS = 5_000  # Kafka's auto.commit.interval.ms
MIN_SILENCE_MS = 2_000
NEARLY = 0.85  # of a timeout: a member may live on for a while after its last commit
SLOWER = 2.5  # a pause so many times longer than its usual one makes a member count as silent
SLACK_MS = 3_000  # for the others to notice, and to rejoin
MAX_SESSION_MS = 90_000  # of KIP-848: 60 s by default, and some slack


SILENT_CODES = ("session expired", "poll too slow", "did not rejoin in time")


class Departure(NamedTuple):
    member: Member
    code: str
    how: str  # a predicate: "left"


def departure_of(rebalance: Rebalance, removal: Removal) -> Departure:
    member, timeout_ms = removal.member, removal.member.rebalance_timeout_ms
    since = removal.revoking_since_ms
    if since is not None and timeout_ms and removal.time_ms - since >= NEARLY * timeout_ms:
        how = f"did not give up partitions within the rebalance timeout of {duration(timeout_ms)}: removed"
        return Departure(member, "did not give up partitions in time", how)
    if removal.is_away:
        return Departure(member, "member left", "went away, and did not come back within the session timeout")
    begin_ms = _began(rebalance, removal)
    if _waited_in_vain(rebalance, removal, begin_ms):
        assert timeout_ms is not None
        how = f"did not rejoin within the rebalance timeout (max.poll.interval.ms) of {duration(timeout_ms)}"
        return Departure(member, "did not rejoin in time", how)
    sign = removal.sign
    if sign is None:
        return Departure(member, "member gone", "left or fell silent: without a commit, the log cannot tell which")
    return _by_silence(member, sign, begin_ms - sign.last_ms, rebalance.restarted_ms is not None)


def _by_silence(member: Member, sign: Sign, silent_ms: int, was_restarted: bool) -> Departure:
    """`was_restarted`: sessions began anew with the coordinator, so that a silence may be longer than the timeout."""
    session_ms, poll_ms = member.session_timeout_ms, member.rebalance_timeout_ms
    shortest = min(MIN_SILENCE_MS, *(round(NEARLY * each) for each in (session_ms, poll_ms) if each), MIN_SILENCE_MS)
    if silent_ms < max(shortest, SLOWER * (sign.interval_ms or USUAL_INTERVAL_MS)):
        return Departure(member, "member left", "left")
    was = f"the last commit was {duration(silent_ms)} before"
    exceeded = [each for each in (session_ms, poll_ms) if each and _fits(silent_ms, each, sign, was_restarted)]
    longest = max(exceeded, default=None)
    if longest is None and session_ms is None and silent_ms <= MAX_SESSION_MS:
        return Departure(
            member, "session expired", f"fell silent: {was}"
        )  # KIP-848: the broker sets the session timeout
    if longest is None and silent_ms < NEARLY * min(each for each in (session_ms, poll_ms, MAX_SESSION_MS) if each):
        return Departure(member, "member left", f"left after a pause: {was}")
    if longest is None:
        return Departure(
            member, "member gone", f"left or fell silent: {was}, perhaps because there was nothing to read"
        )
    if longest == poll_ms and longest != session_ms:
        how = f"did not poll within max.poll.interval.ms of {duration(longest)}: {was}"
        return Departure(member, "poll too slow", how)
    return Departure(member, "session expired", f"fell silent for the session timeout of {duration(longest)}: {was}")


def outlasted(removal: Removal, begin_ms: int) -> bool:
    """Whether the member had been silent for its max.poll.interval.ms when it left."""
    sign, poll_ms = removal.sign, removal.member.rebalance_timeout_ms
    return sign is not None and poll_ms is not None and _fits(begin_ms - sign.last_ms, poll_ms, sign)


def _fits(silent_ms: int, timeout_ms: int, sign: Sign, was_restarted: bool = False) -> bool:
    """Whether the silence is about as long as this timeout. If it is much longer, the member had nothing to commit."""
    interval_ms = sign.interval_ms or USUAL_INTERVAL_MS
    least, most = max(NEARLY * timeout_ms, SLOWER * interval_ms), 1.5 * timeout_ms + 2 * interval_ms + SLACK_MS
    return least <= silent_ms and (was_restarted or silent_ms <= most)


def _began(rebalance: Rebalance, removal: Removal) -> int:
    """When the member was removed. Of a classic group a Kafka's log does not tell that. Members commit until they learn
    of the rebalance, so the median of their last commits stands for its begin."""
    if rebalance.bumps:
        return removal.time_ms
    if rebalance.begin_ms is not None:
        return rebalance.begin_ms
    end_ms = rebalance.join_end_ms or rebalance.time_ms
    own = removal.sign.last_ms if removal.sign is not None else 0
    stops = sorted(
        sign.last_ms
        for member_id, sign in rebalance.signs.items()
        if member_id in rebalance.members and sign.last_ms >= own
    )
    if not stops or rebalance.restarted_ms is not None:  # nobody could commit while there was no coordinator
        return end_ms
    return min(end_ms, stops[(len(stops) - 1) // 2])


def _waited_in_vain(rebalance: Rebalance, removal: Removal, begin_ms: int) -> bool:
    """Whether the others waited for this member until its rebalance timeout was over."""
    timeout_ms = removal.member.rebalance_timeout_ms
    if rebalance.bumps or not timeout_ms or rebalance.join_end_ms is None:
        return False
    if rebalance.told is not None and removal.member.member_id in rebalance.told.trigger:
        return False
    return rebalance.join_end_ms - begin_ms >= NEARLY * timeout_ms
