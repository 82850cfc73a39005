"""The controls, path by path. Each reads the request, calls what a Python test would call, and returns the answer.

They run in threads of their own, because they may have to wait. `add_controls` at the end is the list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count, groupby
from threading import Lock
from typing import Final, TypedDict, TypeVar

from kohort.audit.result import SEVERITIES
from kohort.broker.config import INT32_MAX
from kohort.testing.broker import Broker
from kohort.testing.chaos import EVERY, Chaos
from kohort.testing.faults import Fault
from kohort.testing.group import Group
from kohort.testing.http.ask import Ask, BadAsk, UnknownFault
from kohort.testing.http.control_site import ControlSite
from kohort.testing.http.shapes import (
    Shape,
    checked_shape,
    commit_shape,
    group_shape,
    rebalance_shape,
    record_shape,
    request_shape,
    transaction_shape,
)
from kohort.testing.topic import Topic
from kohort.testing.transaction import Transaction
from kohort.testing.views import TopicPartition

MAX_WAIT_MS: Final = 300_000
MAX_ADVANCE_MS: Final = 400 * 86_400_000  # 400 days
MAX_TOLD: Final = 10_000  # requests, commits or records in one answer
MAX_FAULTS: Final = 1_000
MAX_PARTITIONS: Final = 10_000  # Kafka takes no more in one request

Value = TypeVar("Value")
Headers = tuple[tuple[str, bytes | None], ...]


def _error(kafka: Broker, ask: Ask) -> Fault:
    api, error, wanted = ask.text("api"), ask.text("error"), _wanted(ask)
    return kafka.fail(api, error=error, **wanted)


def _delay(kafka: Broker, ask: Ask) -> Fault:
    api, delay_ms, wanted = ask.text_or_none("api"), ask.number("ms", 1_000, high=MAX_WAIT_MS), _wanted(ask)
    return kafka.delay(api, seconds=delay_ms / 1000, **wanted)


def _drop(kafka: Broker, ask: Ask) -> Fault:
    return kafka.drop(ask.text_or_none("api"), **_wanted(ask))


def _lose_answer(kafka: Broker, ask: Ask) -> Fault:
    return kafka.lose_answer(ask.text_or_none("api"), **_wanted(ask))


def _lose_answer_silently(kafka: Broker, ask: Ask) -> Fault:
    return kafka.lose_answer(ask.text_or_none("api"), close=False, **_wanted(ask))


def _close_before(kafka: Broker, ask: Ask) -> Fault:
    return kafka.close_before(ask.text_or_none("api"), **_wanted(ask))


def _close_after(kafka: Broker, ask: Ask) -> Fault:
    return kafka.close_after(ask.text_or_none("api"), **_wanted(ask))


def _throttle(kafka: Broker, ask: Ask) -> Fault:
    api, throttle_ms, wanted = ask.text_or_none("api"), ask.number("ms", 1_000, high=MAX_WAIT_MS), _wanted(ask)
    return kafka.throttle(api, milliseconds=throttle_ms, **wanted)


def _slow_disk(kafka: Broker, ask: Ask) -> Fault:
    sync_ms, wanted = ask.number("ms", 1_000, high=MAX_WAIT_MS), _wanted_of_disk(ask)
    return kafka.slow_disk(seconds=sync_ms / 1000, **wanted)


def _full_disk(kafka: Broker, ask: Ask) -> Fault:
    return kafka.full_disk(**_wanted_of_disk(ask))


def _chaos(kafka: Broker, ask: Ask) -> Fault:
    seed, every, kinds = ask.number("seed", 0), ask.number("every", EVERY, low=1, high=INT32_MAX), ask.words("kinds")
    group, client_id, topic = ask.text_or_none("group"), ask.text_or_none("client_id"), ask.text_or_none("topic")
    ask.end()
    return kafka.chaos(seed, every=every, kinds=kinds, group=group, client_id=client_id, topic=topic)


class _Wanted(TypedDict):
    """Which requests a fault concerns. None: all."""

    times: int | None
    group: str | None
    client_id: str | None
    topic: str | None


def _wanted(ask: Ask) -> _Wanted:
    wanted = _Wanted(
        times=ask.number_or_none("times", low=1), group=ask.text_or_none("group"),
        client_id=ask.text_or_none("client_id"), topic=ask.text_or_none("topic"),
    )  # fmt: skip
    ask.end()
    return wanted


class _WantedOfDisk(TypedDict):
    times: int | None
    group: str | None
    topic: str | None


def _wanted_of_disk(ask: Ask) -> _WantedOfDisk:
    wanted = _WantedOfDisk(
        times=ask.number_or_none("times", low=1), group=ask.text_or_none("group"), topic=ask.text_or_none("topic")
    )
    ask.end()
    return wanted


FAULTS: Final[Mapping[str, Callable[[Broker, Ask], Fault]]] = {
    "error": _error,
    "delay": _delay,
    "drop": _drop,
    "lose_answer": _lose_answer,
    "lose_answer_silently": _lose_answer_silently,
    "close_before": _close_before,
    "close_after": _close_after,
    "throttle": _throttle,
    "slow_disk": _slow_disk,
    "full_disk": _full_disk,
    "chaos": _chaos,
}


class Controls:
    def __init__(self, kafka: Broker) -> None:
        self._kafka = kafka
        self._life = Lock()  # one restart at a time
        self._faults: dict[int, Fault] = {}
        self._numbers = count(1)

    # --- the broker

    def about(self, ask: Ask) -> Shape:
        ask.end()
        return {"bootstrap_servers": self._kafka.bootstrap_servers}

    def restart(self, ask: Ask) -> Shape:
        ask.end()
        with self._life:
            self._kafka.restart()
        return {}

    def crash(self, ask: Ask) -> Shape:
        ask.end()
        with self._life:
            self._kafka.crash()
        return {}

    def story(self, ask: Ask) -> Shape:
        ask.end()
        return {"story": self._kafka.story()}

    def check(self, ask: Ask) -> Shape:
        """CheckFailed, which is refused, has the findings that are as severe as `fail_on`."""
        checks, ignore, group = ask.words("checks"), ask.words("ignore"), ask.text_or_none("group")
        fail_on, thresholds = ask.text_or_none("fail_on", SEVERITIES) or "warning", ask.decimals("thresholds")
        ask.end()
        return checked_shape(
            self._kafka.check(checks=checks, ignore=ignore or (), thresholds=thresholds, group=group, fail_on=fail_on)
        )

    # --- groups

    def groups(self, ask: Ask) -> Shape:
        ask.end()
        found = self._kafka.groups
        return {"groups": [{"group": each.group_id, "type": each.type, "state": each.state} for each in found]}

    def group(self, ask: Ask) -> Shape:
        ask.end()
        return group_shape(self._group(ask))

    def wait(self, ask: Ask) -> Shape:
        state = ask.text_or_none("state")
        members = ask.number_or_none("members")
        rebalances = ask.number_or_none("rebalances")
        committed = _offsets(ask.nested("committed")) or None
        timeout_ms = ask.number("timeout_ms", 10_000, high=MAX_WAIT_MS)
        ask.end()
        group = self._group(ask).wait_until(
            state, members=members, committed=committed, rebalances=rebalances, timeout=timeout_ms / 1000
        )
        return group_shape(group)

    def rebalances(self, ask: Ask) -> Shape:
        ask.end()
        return {"rebalances": [rebalance_shape(each) for each in self._group(ask).rebalances[-MAX_TOLD:]]}

    def commits(self, ask: Ask) -> Shape:
        limit = ask.number("limit", 1_000, high=MAX_TOLD)
        ask.end()
        return {"commits": [commit_shape(each) for each in _last(limit, self._kafka.commits(ask.part("group")))]}

    def expire(self, ask: Ask) -> Shape:
        member_id = ask.text("member_id")
        ask.end()
        self._group(ask).expire(member_id)
        return {}

    def expire_locks(self, ask: Ask) -> Shape:
        member_id = ask.text_or_none("member_id")
        ask.end()
        return {"records": self._group(ask).expire_locks(member_id)}

    def evict(self, ask: Ask) -> Shape:
        member_id = ask.text("member_id")
        ask.end()
        self._group(ask).evict(member_id)
        return {}

    def rebalance(self, ask: Ask) -> Shape:
        reason = ask.text_or_none("reason")
        ask.end()
        self._group(ask).rebalance(reason or "asked for by a test")
        return {}

    def _group(self, ask: Ask) -> Group:
        return self._kafka.group(ask.part("group"))

    # --- transactions

    def transactions(self, ask: Ask) -> Shape:
        ask.end()
        return {"transactions": [transaction_shape(each) for each in self._kafka.transactions]}

    def transaction(self, ask: Ask) -> Shape:
        ask.end()
        return transaction_shape(self._transaction(ask))

    def wait_for_transaction(self, ask: Ask) -> Shape:
        state, timeout_ms = ask.text("state"), ask.number("timeout_ms", 10_000, high=MAX_WAIT_MS)
        ask.end()
        return transaction_shape(self._transaction(ask).wait_until(state, timeout=timeout_ms / 1000))

    def time_out(self, ask: Ask) -> Shape:
        ask.end()
        self._transaction(ask).time_out()
        return {}

    def fence(self, ask: Ask) -> Shape:
        ask.end()
        self._transaction(ask).fence()
        return {}

    def _transaction(self, ask: Ask) -> Transaction:
        return self._kafka.transaction(ask.part("id"))

    # --- requests

    def requests(self, ask: Ask) -> Shape:
        api, client_id, group = ask.text_or_none("api"), ask.text_or_none("client_id"), ask.text_or_none("group")
        limit = ask.number("limit", 1_000, high=MAX_TOLD)
        ask.end()
        found = self._kafka.requests(api, client_id=client_id, group=group)
        return {"requests": [request_shape(each) for each in _last(limit, found)]}

    # --- topics

    def create_topic(self, ask: Ask) -> Shape:
        name = ask.text("topic")
        partitions = ask.number("partitions", 1, low=1, high=MAX_PARTITIONS)
        config = ask.texts("config")
        ask.end()
        return _topic_told(self._kafka.create_topic(name, partitions, config))

    def topic(self, ask: Ask) -> Shape:
        ask.end()
        return _topic_told(self._kafka.topic(ask.part("topic")))

    def records(self, ask: Ask) -> Shape:
        partition = ask.number_or_none("partition")
        limit = ask.number("limit", 1_000, high=MAX_TOLD)
        ask.end()
        found = self._kafka.topic(ask.part("topic")).records(partition)
        return {"records": [record_shape(each) for each in found[:limit]]}

    def produce(self, ask: Ask) -> Shape:
        """Records beside each other that differ in nothing but their values are one batch."""
        rows = ask.several("records")
        ask.end()
        if not 0 < len(rows) <= MAX_TOLD:
            raise BadAsk(f"records must have between 1 and {MAX_TOLD} records, not {len(rows)}")
        read = [_record(row) for row in rows]
        told: list[Shape] = []
        for (partition, key, headers), batch in groupby(read, key=lambda each: each[:3]):
            values = [value for *_, value in batch]
            first = self._kafka.produce(ask.part("topic"), *values, partition=partition, key=key, headers=headers)
            told += [{"partition": partition, "offset": first + number} for number in range(len(values))]
        return {"records": told}

    # --- faults

    def faults(self, ask: Ask) -> Shape:
        ask.end()
        return {"faults": [self._fault_told(number) for number in sorted(self._faults)]}

    def begin_fault(self, ask: Ask) -> Shape:
        begin = FAULTS[ask.text("kind", tuple(FAULTS))]
        if len(self._faults) >= MAX_FAULTS:
            raise BadAsk(f"there are {MAX_FAULTS} faults already: DELETE /test/faults stops them all")
        number = next(self._numbers)
        self._faults[number] = begin(self._kafka, ask)
        return self._fault_told(number)

    def stop_fault(self, ask: Ask) -> Shape:
        ask.end()
        number = ask.part("id")
        fault = self._faults.pop(int(number), None) if number.isascii() and number.isdecimal() else None
        if fault is None:
            raise UnknownFault(f"there is no fault {number[:100]!r}: GET /test/faults lists them")
        fault.stop()
        return {}

    def stop_faults(self, ask: Ask) -> Shape:
        ask.end()
        while self._faults:
            self._faults.popitem()[1].stop()
        return {}

    def _fault_told(self, number: int) -> Shape:
        fault = self._faults[number]
        told: Shape = {"id": number, "what": repr(fault).strip("<>"), "hits": fault.hits}
        return told | {"troubles": [str(each) for each in fault.troubles]} if isinstance(fault, Chaos) else told

    # --- time

    def clock(self, ask: Ask) -> Shape:
        ask.end()
        return {"time_ms": int(self._kafka.clock.now.timestamp() * 1000)}

    def advance(self, ask: Ask) -> Shape:
        span_ms = ask.number("ms", 0, high=MAX_ADVANCE_MS)
        ask.end()
        self._kafka.clock.advance(milliseconds=span_ms)
        return self.clock(ask)

    def freeze(self, ask: Ask) -> Shape:
        ask.end()
        self._kafka.clock.freeze()
        return self.clock(ask)

    def resume(self, ask: Ask) -> Shape:
        ask.end()
        self._kafka.clock.resume()
        return self.clock(ask)


def _last(limit: int, values: list[Value]) -> list[Value]:
    return values[-limit:] if limit else []


def _topic_told(topic: Topic) -> Shape:
    ends = {str(partition): offset for (_, partition), offset in topic.end_offsets.items()}
    return {"topic": topic.name, "partitions": len(ends), "end_offsets": ends}


def _record(row: Ask) -> tuple[int, bytes | None, Headers, bytes | None]:
    partition, key, value = row.number("partition", 0), row.content("key"), row.content("value")
    headers = tuple(_header(each) for each in row.several("headers"))
    row.end()
    return partition, key, headers, value


def _header(row: Ask) -> tuple[str, bytes | None]:
    name, value = row.text("name"), row.content("value")
    row.end()
    return name, value


def _offsets(ask: Ask) -> dict[TopicPartition, int]:
    """{"orders": {"0": 17}}"""
    found = {}
    for topic in ask.names():
        by_partition = ask.nested(topic)
        for partition in by_partition.names():
            if not (partition.isascii() and partition.isdecimal() and len(partition) < 10):
                raise BadAsk(
                    f'committed must look like {{"topic": {{"0": 17}}}}, and {partition[:100]!r} is no partition'
                )
            found[topic, int(partition)] = by_partition.number(partition, 0)
    return found


def add_controls(site: ControlSite, kafka: Broker) -> None:
    controls = Controls(kafka)
    for method, path, control in (
        ("GET", "/test", controls.about),
        ("POST", "/test/restart", controls.restart),
        ("POST", "/test/crash", controls.crash),
        ("GET", "/test/story", controls.story),
        ("POST", "/test/check", controls.check),
        ("GET", "/test/groups", controls.groups),
        ("GET", "/test/groups/{group}", controls.group),
        ("POST", "/test/groups/{group}/wait", controls.wait),
        ("GET", "/test/groups/{group}/rebalances", controls.rebalances),
        ("GET", "/test/groups/{group}/commits", controls.commits),
        ("POST", "/test/groups/{group}/expire", controls.expire),
        ("POST", "/test/groups/{group}/expire-locks", controls.expire_locks),
        ("POST", "/test/groups/{group}/evict", controls.evict),
        ("POST", "/test/groups/{group}/rebalance", controls.rebalance),
        ("GET", "/test/transactions", controls.transactions),
        ("GET", "/test/transactions/{id}", controls.transaction),
        ("POST", "/test/transactions/{id}/wait", controls.wait_for_transaction),
        ("POST", "/test/transactions/{id}/time-out", controls.time_out),
        ("POST", "/test/transactions/{id}/fence", controls.fence),
        ("GET", "/test/requests", controls.requests),
        ("POST", "/test/topics", controls.create_topic),
        ("GET", "/test/topics/{topic}", controls.topic),
        ("GET", "/test/topics/{topic}/records", controls.records),
        ("POST", "/test/topics/{topic}/records", controls.produce),
        ("GET", "/test/faults", controls.faults),
        ("POST", "/test/faults", controls.begin_fault),
        ("DELETE", "/test/faults", controls.stop_faults),
        ("DELETE", "/test/faults/{id}", controls.stop_fault),
        ("GET", "/test/clock", controls.clock),
        ("POST", "/test/clock/advance", controls.advance),
        ("POST", "/test/clock/freeze", controls.freeze),
        ("POST", "/test/clock/resume", controls.resume),
    ):
        site.add_control(method, path, control)
