"""A rebalance in a sentence or two, from what the log says. Where the log does not say why, that is inferred, and the
words say so.
"""

from __future__ import annotations

from kohort.broker.live.group import Rebalance


def in_words(rebalance: Rebalance) -> str:
    sentences = [_cause(rebalance), _changes(rebalance)]
    if rebalance.slowest and rebalance.members > 1 and rebalance.is_over and rebalance.slowest != rebalance.trigger:
        sentences.append(f"{rebalance.slowest} was the last.")
    if rebalance.unowned:
        sentences.append(f"{_count(rebalance.unowned, 'partition')} had no owner afterwards.")
    return " ".join(filter(None, sentences))


def _cause(rebalance: Rebalance) -> str:
    if rebalance.cause:
        return f"Caused by {rebalance.trigger}." if rebalance.trigger else ""
    if rebalance.joined_count and rebalance.left_count:
        return "Members came and went (inferred: the log does not say why)."
    if rebalance.joined_count:
        return "A new member (inferred: the log does not say why)."
    if rebalance.left_count:
        return "A member left or fell silent (inferred: the log does not say why)."
    return "The same members: one rejoined, or its subscription or a topic changed (inferred)."


def _changes(rebalance: Rebalance) -> str:
    parts = []
    if rebalance.joined_count:
        parts.append(f"{_count(rebalance.joined_count, 'member')} joined")
    if rebalance.left_count:
        parts.append(f"{_count(rebalance.left_count, 'member')} left")
    parts.append(f"{_count(rebalance.moved, 'partition')} moved" if rebalance.moved else "nothing moved")
    return ", ".join(parts)[:1].upper() + ", ".join(parts)[1:] + "."


def _count(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")
