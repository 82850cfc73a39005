"""Counters for Prometheus: requests, errors and latency by API; groups and rebalances; connections; log sizes; lag.

Off unless `kohort.http.port` is set. `http/metrics_page.py` serves them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from typing import TYPE_CHECKING

from kohort.broker.rebalances import DURATION_BUCKETS_S, Rebalances
from kohort.coordinator.classic.state import ClassicGroupState
from kohort.coordinator.group import CLASSIC, CONSUMER, SHARE

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.server import Server
    from kohort.coordinator.group import Group

LATENCY_BUCKETS_S = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 60)
STEP_BUCKETS_S = (0.0001, 0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.3, 1)
NS_PER_S = 1_000_000_000
FIRST_BUCKETS_NS = 100_000  # as 0.0001 in both
LAG_INTERVAL_S = 0.5
PER_STEP = 500  # logs or groups
TYPES_AND_STATES = (
    *((CLASSIC, state.value) for state in ClassicGroupState),
    *((CONSUMER, state) for state in ("Empty", "Assigning", "Reconciling", "Stable")),
    *((SHARE, state) for state in ("Empty", "Stable")),
)


class ApiMetrics:
    """Counters for the requests of one API."""

    __slots__ = (
        "beat_ns", "beats", "buckets", "errors", "requests", "seconds", "slowest_step", "step_buckets", "step_seconds",
    )  # fmt: skip

    def __init__(self) -> None:
        self.requests = 0
        self.errors = 0
        self.seconds = 0.0
        self.buckets = [0] * (len(LATENCY_BUCKETS_S) + 1)
        self.step_buckets = [0] * (len(STEP_BUCKETS_S) + 1)
        self.step_seconds = 0.0
        self.slowest_step = 0.0
        self.beats = self.beat_ns = 0  # by the quick path; all of them are in the first buckets

    def answered(self, ns: int, failed: bool) -> None:
        seconds = ns / NS_PER_S
        self.requests += 1
        self.errors += failed
        self.seconds += seconds
        self.buckets[bisect_left(LATENCY_BUCKETS_S, seconds)] += 1

    def beat(self, ns: int) -> None:
        """A heartbeat was answered by the quick path: it was one step, and had no error."""
        if ns < FIRST_BUCKETS_NS:
            self.beats += 1
            self.beat_ns += ns
        else:
            self.answered(ns, False)
            self.held_loop(ns / NS_PER_S)

    def with_beats(self) -> ApiMetrics:
        """The same with the beats counted in."""
        whole = copy(self)
        whole.requests += self.beats
        whole.seconds += self.beat_ns / NS_PER_S
        whole.step_seconds += self.beat_ns / NS_PER_S
        whole.buckets = [self.buckets[0] + self.beats, *self.buckets[1:]]
        whole.step_buckets = [self.step_buckets[0] + self.beats, *self.step_buckets[1:]]
        return whole

    def held_loop(self, seconds: float) -> None:
        """A step of such a request kept the event loop for so many seconds."""
        self.step_buckets[bisect_left(STEP_BUCKETS_S, seconds)] += 1
        self.step_seconds += seconds
        self.slowest_step = max(self.slowest_step, seconds)


class Metrics:
    def __init__(self, server: Server) -> None:
        self._server = server
        self._apis: dict[str, ApiMetrics] = {}
        self.more: list[Callable[[], Iterator[str]]] = []  # lines that others make
        self.refused_requests = 0  # malformed, or of an API that is not served
        self._lag_s = 0.0
        self._watch_lag()

    def api(self, name: str) -> ApiMetrics:
        found = self._apis.get(name)
        if found is None:
            found = self._apis[name] = ApiMetrics()
        return found

    def _watch_lag(self) -> None:
        """Measure how late the event loop calls a timer. The slowest handler took about as long meanwhile."""
        loop = self._server.loop
        due = loop.time() + LAG_INTERVAL_S

        def late() -> None:
            self._lag_s = max(0.0, loop.time() - due)
            self._watch_lag()

        loop.call_at(due, late)

    def lines(self) -> Iterator[str]:
        """The lines of the text. An empty one is not part of it, but ends a step: see `broker.steps`."""
        broker = self._server.broker
        yield from gauge("kohort_connections", "open connections", [("", self._server.connection_count)])
        yield from gauge("kohort_event_loop_lag_seconds", "how late timers run", [("", f"{self._lag_s:.6f}")])
        yield from gauge("kohort_topics", "topics", [("", len(broker.catalog))])
        sizes: dict[str, int] = {}
        for number, key in enumerate(list(broker.logs.logs)):
            if (log := broker.logs.logs.get(key)) is not None:  # else it was deleted between two steps
                sizes[key[0]] = sizes.get(key[0], 0) + log.size_bytes
            if number % PER_STEP == 0:
                yield ""
        rows = ((f'topic="{topic}"', size) for topic, size in sizes.items())  # unsorted: that could take long
        yield from gauge("kohort_log_size_bytes", "bytes of log segments", rows)
        failed = [("", len(broker.logs.failed))]
        yield from gauge("kohort_offline_partitions", "partitions whose log could not be opened", failed)
        yield from _group_lines(broker)
        from kohort.broker.share.metrics import delivery_lines  # these two import this module
        from kohort.broker.transactions.metrics import transaction_lines

        yield from delivery_lines(broker)
        yield from transaction_lines(broker)
        for lines in self.more:
            yield from lines()
        counters = [(name, each.with_beats()) for name, each in sorted(self._apis.items())]
        refused = [("", self.refused_requests)]
        yield from metric("kohort_refused_requests_total", "counter", "malformed or unsupported requests", refused)
        requests = [(f'api="{name}"', each.requests) for name, each in counters]
        yield from metric("kohort_requests_total", "counter", "requests answered", requests)
        errors = [(f'api="{name}"', each.errors) for name, each in counters]
        yield from metric("kohort_request_errors_total", "counter", "answers with an error code", errors)
        yield from metric("kohort_request_seconds", "histogram", "from the whole request to its answer", ())
        for name, each in counters:
            label = f'api="{name}"'
            yield from histogram("kohort_request_seconds", label, LATENCY_BUCKETS_S, each.buckets, each.seconds)
        yield from metric("kohort_step_seconds", "histogram", "for which a step held the event loop", ())
        for name, each in counters:
            label = f'api="{name}"'
            yield from histogram("kohort_step_seconds", label, STEP_BUCKETS_S, each.step_buckets, each.step_seconds)
        slowest = [(f'api="{name}"', f"{each.slowest_step:.6f}") for name, each in counters]
        yield from gauge("kohort_slowest_step_seconds", "the longest step since the start", slowest)


def _group_lines(broker: Broker) -> Iterator[str]:
    groups: Counter[tuple[str, str]] = Counter()  # by type and state
    members: Counter[str] = Counter()  # by type
    member_states: Counter[str] = Counter()  # of consumer groups
    for shard in broker.coordinator.runtime.shards:
        for number, group in enumerate(list(shard.state.groups.values())):
            groups[group.type, group.state_name] += 1
            members[group.type] += group.member_count
            if group.type == CONSUMER:
                member_states.update(_states_of_members(group))
            if number % PER_STEP == 0:
                yield ""
    rows = [(f'type="{kind}",state="{state}"', groups[kind, state]) for kind, state in TYPES_AND_STATES]
    yield from gauge("kohort_groups", "groups by type and state", rows)
    rows = [(f'type="{kind}"', members[kind]) for kind in (CLASSIC, CONSUMER, SHARE)]
    yield from gauge("kohort_group_members", "members of groups by type", rows)
    rows = [(f'state="{state}"', count) for state, count in sorted(member_states.items())]
    yield from gauge("kohort_consumer_group_members", "members of consumer groups by their state", rows)
    unreadable = sum(shard.unreadable_count for each in broker.coordinators() for shard in each.runtime.shards)
    yield from gauge("kohort_unreadable_group_records", "records of groups that nobody can read", [("", unreadable)])
    yield from _rebalance_lines(broker.coordinator.rebalances)


def _states_of_members(group: Group) -> dict[str, int]:
    from kohort.coordinator.consumer.group import ConsumerGroup  # only brokers that have such groups pay for them

    assert isinstance(group, ConsumerGroup)
    return group.member_states()


def _rebalance_lines(told: Rebalances) -> Iterator[str]:
    causes = [
        (f'type="{kind}",cause="{cause}"', count)
        for kind, counters in told.by_type.items()
        for cause, count in sorted(counters.by_cause.items())
    ]
    yield from metric("kohort_rebalances_total", "counter", "rebalances, also those that left nobody", causes)
    moved = [(f'type="{kind}"', counters.moved_partitions) for kind, counters in told.by_type.items()]
    yield from metric("kohort_rebalance_moved_partitions_total", "counter", "that got another owner", moved)
    about = "from the cause to the assignment, in consumer groups until all members had reconciled"
    yield from metric("kohort_rebalance_seconds", "histogram", about, ())
    for kind, counters in told.by_type.items():
        label = f'type="{kind}"'
        yield from histogram("kohort_rebalance_seconds", label, DURATION_BUCKETS_S, counters.buckets, counters.seconds)


def gauge(name: str, about: str, rows: Iterable[tuple[str, object]]) -> Iterator[str]:
    return metric(name, "gauge", about, rows)


def metric(name: str, kind: str, about: str, rows: Iterable[tuple[str, object]]) -> Iterator[str]:
    yield f"# HELP {name} {about}"
    yield f"# TYPE {name} {kind}"
    for labels, value in rows:
        yield f"{name}{{{labels}}} {value}" if labels else f"{name} {value}"


def histogram(name: str, label: str, limits: Sequence[float], buckets: Sequence[int], seconds: float) -> Iterator[str]:
    total = 0
    comma = "," if label else ""
    for limit, count in zip((*limits, "+Inf"), buckets, strict=True):
        total += count
        yield f'{name}_bucket{{{label}{comma}le="{limit}"}} {total}'
    labels = f"{{{label}}}" if label else ""
    yield f"{name}_sum{labels} {seconds:.6f}"
    yield f"{name}_count{labels} {total}"
