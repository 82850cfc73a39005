"""An explanation as JSON, for programs and for the page."""

from __future__ import annotations

from typing import Any

from kohort.history.cause import Cause
from kohort.history.explain import Explanation
from kohort.history.members import ID_PREFIX, Member, Place
from kohort.history.text import lines_of, title_of

MAX_LISTED = 10_000  # partitions


def as_json(explanation: Explanation) -> dict[str, Any]:
    rebalance, topics = explanation.rebalance, explanation.topics

    def place(key: Place) -> list[Any]:
        return [topics.get(key[0], key[0]).removeprefix(ID_PREFIX), key[1]]

    slowest, moved = explanation.slowest, explanation.moved
    return {
        "group": explanation.group_id,
        "type": rebalance.group_type,
        "is_rebalance": explanation.is_rebalance,
        "generation": rebalance.generation,
        "previous_generation": rebalance.previous,
        "log_offset": rebalance.offset,
        "time_ms": explanation.time_ms,
        "begin_ms": explanation.begin_ms,
        "end_ms": explanation.end_ms,
        "protocol": rebalance.protocol,
        "members": len(rebalance.members),
        "members_before": None if rebalance.before is None else len(rebalance.before),
        "cause": _cause(explanation.cause),
        "is_inferred": explanation.is_inferred,
        "also": [_cause(cause) for cause in explanation.also],
        "rolling_restart": None if explanation.rolling is None else explanation.rolling._asdict(),
        "flapping": [{"member": _member(member), "times": times} for member, times in explanation.flapping],
        "slowest": None
        if slowest is None
        else {"member": _member(slowest.member), "late_ms": slowest.late_ms, "is_inferred": slowest.is_inferred},
        "not_yet": [_member(member) for member in explanation.not_yet],
        "unowned": [
            {"place": place(gap.place), "from_ms": gap.from_ms, "to_ms": gap.to_ms, "is_inferred": gap.is_inferred}
            for gap in explanation.gaps[:MAX_LISTED]
        ],
        "still_unowned": [{"place": place(key), "from_ms": since} for key, since in explanation.still_free.items()],
        "moves": None
        if moved is None
        else {
            "moved": moved.moved,
            "forced": moved.forced,
            "needless": moved.needless,
            "examples": [
                {"place": place(move.place), "from": move.before, "to": move.after} for move in moved.examples
            ],
        },
        "ways": [way._asdict() for way in explanation.ways],
        "notes": list(explanation.notes),
        "advice": list(explanation.advice),
        "title": title_of(explanation),
        "lines": [line._asdict() for line in lines_of(explanation)],
    }


def _cause(cause: Cause) -> dict[str, Any]:
    return {
        "code": cause.code,
        "text": cause.text,
        "who": [_member(member) for member in cause.who],
        "topics": list(cause.topics),
    }


def _member(member: Member) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
    }
