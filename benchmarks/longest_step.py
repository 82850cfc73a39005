"""How long does the coordinator hold the event loop for a very large group? The CPU time of its longest step.

    python -m benchmarks.longest_step [--only WORD] [--members 10000] [--profile]

The coordinator runs in this process, without sockets and disk, as in its unit tests. Every call that the event loop
makes is timed for itself: a request, a step of a long one, a piece of what is done in pieces, the packing of a batch,
deadlines that have come, a step of loading. CPU time of the thread counts, so a busy machine does not disturb the
figures much. Garbage is collected as in the broker.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import pstats
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from time import thread_time
from types import GeneratorType
from typing import Any, TypeVar

from kohort.broker.steps import ELEMENTS_AT_ONCE
from kohort.coordinator.group_runtime import GroupRuntime
from kohort.coordinator.shard import Shard, Write
from kohort.coordinator.shard_state import ShardState
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kohort.protocol.messages.delete_groups import DeleteGroupsRequest
from kohort.protocol.messages.describe_groups import DescribeGroupsRequest
from kohort.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kohort.protocol.messages.sync_group import SyncGroupRequest
from tests.coordinator.consumer.migrants import ClassicMember, partitions_of
from tests.coordinator.consumer.words import Answer, Group
from tests.coordinator.members import complete_joins, leader_of
from tests.coordinator.support import SERVED, Call, FakeTopics, Host
from tests.group_requests import assignment_bytes

GOAL_MS = 20
TOPICS = 10
MOST_CLASSIC = 5_000
SESSION_MS = 45_000
Result = TypeVar("Result")


class Stopwatch:
    def __init__(self) -> None:
        self.longest: dict[str, tuple[float, int]] = {}  # by kind of step: milliseconds, and how many steps there were
        self.profile: cProfile.Profile | None = None
        self._depth = 0

    def time(self, kind: str, work: Callable[[], Result]) -> Result:
        if self._depth:
            return work()
        self._depth += 1
        if self.profile is not None:
            self.profile.enable()
        began = thread_time()
        try:
            return work()
        finally:
            took = (thread_time() - began) * 1000
            if self.profile is not None:
                self.profile.disable()
            self._depth -= 1
            longest, count = self.longest.get(kind, (0.0, 0))
            self.longest[kind] = max(longest, took), count + 1

    def take(self) -> dict[str, tuple[float, int]]:
        taken, self.longest = self.longest, {}
        return taken


def _innermost(steps: Any) -> str:
    """Where a generator goes on."""
    while (inner := getattr(steps, "gi_yieldfrom", None)) is not None:
        steps = inner
    frame = getattr(steps, "gi_frame", None)
    if frame is None:
        return "nothing"
    if "steps" in frame.f_locals:  # pieces.in_pieces
        return _innermost(frame.f_locals["steps"])
    return f"{steps.__qualname__}:{frame.f_lineno}"


class TimedRuntime(GroupRuntime):
    watch: Stopwatch

    def go_on(self, now: int, wall: int) -> bool:
        job = next((shard.jobs[0].pieces for shard in self.busy.values()), None)
        kind = f"piece of {_innermost(job)}"
        return self.watch.time(kind, lambda: super(TimedRuntime, self).go_on(now, wall))

    def take_writes(self, now: int, wall: int) -> list[Write[ShardState]]:
        return self.watch.time("packing", lambda: super(TimedRuntime, self).take_writes(now, wall))

    def written(self, write: Write[ShardState], now: int) -> None:
        self.watch.time("written", lambda: super(TimedRuntime, self).written(write, now))

    def expire(self, now: int, wall: int) -> None:
        self.watch.time("deadlines", lambda: super(TimedRuntime, self).expire(now, wall))

    def topics_deleted(self, topics: list[tuple[str, bytes]], *, at_once: bool = True) -> None:
        work = partial(super().topics_deleted, topics, at_once=at_once)
        self.watch.time("topics deleted", work)


class Topics(FakeTopics):
    def name_of(self, topic_id: bytes) -> str | None:
        names = self.__dict__.setdefault("_names", {})
        if len(names) != len(self._ids):
            names.clear()
            names.update((known, name) for name, known in self._ids.items())
        found: str | None = names.get(topic_id)
        return found


class TimedHost(Host):
    def __init__(self, watch: Stopwatch, partitions: int, **settings: Any) -> None:
        self.watch = watch
        topics = Topics(**{f"topic-{number}": partitions // TOPICS for number in range(TOPICS)})
        super().__init__(topics=topics, partition_count=1, **settings)

    def _new_runtime(self) -> GroupRuntime:
        runtime = TimedRuntime(self.config, self.topics, self.random, self.partition_count)
        runtime.watch = self.watch
        return runtime

    def _serve(self, request: Any, call: Call) -> Any:
        if isinstance(request, SyncGroupRequest) and len(request.assignments) > ELEMENTS_AT_ONCE:
            call.is_long = True  # as a connection decides; a thread has decoded the request
        served: Any = SERVED[ApiKey(call.api_key)]
        name = ApiKey(call.api_key).name
        response = self.watch.time(name, lambda: served(self, request, call))
        if isinstance(response, GeneratorType):
            while True:
                try:
                    self.watch.time(f"{name} step", lambda: next(response))
                except StopIteration as end:
                    return end.value
        return response

    def load_shard(self, shard: Shard[ShardState]) -> None:
        for batch in self.disk.batches.get(shard.partition, []):
            self._all_steps("loading", shard.load_chunk(batch, len(batch)))
        self._all_steps("loading", self.runtime.loaded(shard, self.steady_ms, self.now))

    def _all_steps(self, kind: str, steps: Iterator[None]) -> None:
        while not self.watch.time(kind, lambda: next(steps, self) is self):
            pass


NAMES = [f"topic-{number}" for number in range(TOPICS)]


def classic_group(host: TimedHost, count: int) -> tuple[Group, list[ClassicMember]]:
    """At most as many members as fit into one record of the log, with short names."""
    count = min(count, MOST_CLASSIC)
    group = Group(host)
    members = [
        ClassicMember(group, f"member-{number}", NAMES, version=1, session_timeout_ms=SESSION_MS)
        for number in range(count)
    ]
    complete_joins(host, list(members))
    return group, members


def share(members: list[ClassicMember], partitions: int) -> None:
    """The leader assigns ranges, and everyone takes its own."""
    each = max(1, partitions // TOPICS // len(members))
    leader = leader_of(list(members))
    assigned = {}
    for number, member in enumerate(members):
        assigned[member.member_id] = assignment_bytes(
            {name: range(number * each, number * each + each) for name in NAMES[:1]}
        )
    calls = {member.member_id: member.sync() for member in members if member is not leader}
    calls[leader.member_id] = leader.sync(assigned)
    for member in members:
        member.owned = partitions_of(calls[member.member_id].answer.assignment)


def consumer_group(host: TimedHost, count: int) -> tuple[Group, dict[str, dict[str, list[int]]]]:
    """A group of members that share everything, and what each has."""
    group = Group(host)
    owned: dict[str, dict[str, list[int]]] = {}
    for number in range(count):
        answer = group.join(f"member-{number:015d}", NAMES)
        assert isinstance(answer, Answer), answer
    host.advance(1_000)
    settle(group, owned)
    return group, owned


def settle(group: Group, owned: dict[str, dict[str, list[int]]]) -> None:
    for _ in range(10):
        for member_id, member in list(group.object.members.items()):
            answer = group.beat(member_id, member.epoch, owned.get(member_id, {}))
            assert isinstance(answer, Answer), answer
            if answer.assignment is not None:
                owned[member_id] = answer.assignment
        if group.state == "Stable":
            return
    raise AssertionError(group.state)


# --- stories: what is measured happens behind `watch.take()`


def classic_join_and_sync(watch: Stopwatch, members: int) -> None:
    host = TimedHost(watch, members, max_message_bytes=50_000_000)
    _, joined = classic_group(host, members)
    share(joined, members)
    for member in joined:
        member.say()
        member.ask_to_join()
    for member in joined:
        member.learn()
    share(joined, members)


def upgrade(watch: Stopwatch, members: int) -> None:
    host = TimedHost(watch, members, max_message_bytes=50_000_000)
    group, joined = classic_group(host, members)
    share(joined, members)
    watch.take()
    answer = group.join("new", NAMES)
    assert isinstance(answer, Answer), answer
    assert group.object.member_count == len(joined) + 1


def downgrade(watch: Stopwatch, members: int) -> None:
    host = TimedHost(watch, members, max_message_bytes=50_000_000)
    group, joined = classic_group(host, members)
    share(joined, members)
    group.join("new", NAMES)
    watch.take()
    group.leave("new")
    assert len(host.classic(group.group_id).members) == len(joined)


def refused_upgrade(watch: Stopwatch, members: int) -> None:
    host = TimedHost(watch, members)
    group, joined = classic_group(host, 3_000)
    share(joined, 3_000)
    watch.take()
    assert group.join("new", NAMES) is ErrorCode.UNKNOWN_SERVER_ERROR


def consumer_join(watch: Stopwatch, members: int) -> None:
    host = TimedHost(watch, members)
    group, _ = consumer_group(host, members)
    host.advance(1_000)
    group.join("newcomer", NAMES)


def consumer_loading(watch: Stopwatch, members: int) -> None:
    host = TimedHost(watch, members)
    consumer_group(host, members)
    watch.take()
    host.crash()


def classic_loading(watch: Stopwatch, members: int) -> None:
    host = TimedHost(watch, members, max_message_bytes=50_000_000)
    _, joined = classic_group(host, members)
    share(joined, members)
    watch.take()
    host.crash()


def describe(watch: Stopwatch, members: int) -> None:
    host = TimedHost(watch, members)
    group, _ = consumer_group(host, members)
    watch.take()
    host.ask(ConsumerGroupDescribeRequest([group.group_id]))


def describe_classic(watch: Stopwatch, members: int) -> None:
    host = TimedHost(watch, members, max_message_bytes=50_000_000)
    group, joined = classic_group(host, members)
    share(joined, members)
    watch.take()
    host.ask(DescribeGroupsRequest([group.group_id]))


def sessions_expire(watch: Stopwatch, members: int) -> None:
    host = TimedHost(watch, members)
    group, _ = consumer_group(host, members)
    watch.take()
    host.advance(2 * SESSION_MS)
    assert group.object.member_count == 0
    host.ask(DeleteGroupsRequest([group.group_id]))


def classic_sessions_expire(watch: Stopwatch, members: int) -> None:
    host = TimedHost(watch, members, max_message_bytes=50_000_000)
    group, joined = classic_group(host, members)
    share(joined, members)
    watch.take()
    host.advance(20 * SESSION_MS)
    assert not host.classic(group.group_id).members


def all_are_sent_away(watch: Stopwatch, members: int) -> None:
    host = TimedHost(watch, members)
    group, owned = consumer_group(host, members)
    watch.take()
    sent_away = [MemberIdentity(member_id, None, None) for member_id in owned]
    request = LeaveGroupRequest(group.group_id, "", sent_away)
    call = Call(host, ApiKey.LEAVE_GROUP, 5, "admin", request)
    call.is_long = True
    host._serve(request, call)
    host.settle()


def all_classic_are_sent_away(watch: Stopwatch, members: int) -> None:
    host = TimedHost(watch, members, max_message_bytes=50_000_000)
    group, joined = classic_group(host, members)
    share(joined, members)
    watch.take()
    sent_away = [MemberIdentity(member.member_id, None, None) for member in joined]
    request = LeaveGroupRequest(group.group_id, "", sent_away)
    call = Call(host, ApiKey.LEAVE_GROUP, 5, "admin", request)
    call.is_long = True
    host._serve(request, call)
    host.settle()


def topics_change(watch: Stopwatch, members: int) -> None:
    """A topic of a large group grows, another one is deleted."""
    host = TimedHost(watch, members)
    group, owned = consumer_group(host, members)
    watch.take()
    host.topics.grow(NAMES[0], 2 * members // TOPICS)
    host.advance(1_000)
    first = next(iter(owned))
    group.beat(first, group.object.members[first].epoch)
    host.delete_topic(NAMES[1])
    host.advance(1_000)
    group.beat(first, group.object.members[first].epoch)


def topic_of_many_groups(watch: Stopwatch, members: int) -> None:
    """A topic is deleted that very many small groups are subscribed to."""
    host = TimedHost(watch, 10)
    groups = [Group(host, f"group-{number}") for number in range(members)]
    for group in groups:
        group.join("member", NAMES)
    watch.take()
    host.delete_topic(NAMES[0])
    host.advance(1_000)
    for group in groups[:10]:
        group.beat("member", group.object.members["member"].epoch)


def regular_expressions(watch: Stopwatch, members: int) -> None:
    """Very many topics, and a member that wants all of them by a regular expression."""
    host = TimedHost(watch, 10)
    for number in range(members):
        host.topics.create(f"another-{number}", 1)
    group = Group(host)
    watch.take()
    for name in ("first", "second"):
        group.join(name, None, subscribed_topic_regex=f"another.*|{name}")
        for _ in range(2):
            host.advance(11_000)
            host.topics.create(f"{name}-{host.steady_ms}", 1)
            group.beat("first", group.object.members["first"].epoch)


def many_topics(watch: Stopwatch, members: int) -> None:
    """Very many topics, by name."""
    host = TimedHost(watch, 10)
    names = [f"another-{number}" for number in range(members)]
    for name in names:
        host.topics.create(name, 1)
    group = Group(host)
    watch.take()
    for member in ("first", "second"):
        group.join(member, names)
        host.advance(2_000)
    host.topics.create("new", 1)
    group.beat("first", group.object.members["first"].epoch)


STORIES: dict[str, Callable[[Stopwatch, int], None]] = {
    each.__name__.replace("_", " "): each
    for each in (
        classic_join_and_sync, classic_loading, classic_sessions_expire, describe_classic, all_classic_are_sent_away,
        upgrade, downgrade, refused_upgrade, consumer_join, consumer_loading, describe, sessions_expire,
        all_are_sent_away, topics_change, topic_of_many_groups, regular_expressions, many_topics,
    )
}  # fmt: skip


@contextmanager
def collecting_garbage_as_the_broker_does() -> Iterator[None]:
    gc.collect()
    gc.freeze()
    gc.set_threshold(25_000, 4, 250)
    yield
    gc.unfreeze()


def main() -> None:
    parser = argparse.ArgumentParser(description="The longest step of the coordinator with very large groups.")
    parser.add_argument("--only", default="", metavar="WORD", help="stories with this word in their name")
    parser.add_argument("--members", type=int, default=10_000)
    parser.add_argument("--profile", action="store_true", help="what takes the time, in all steps together")
    options = parser.parse_args()
    for name, story in STORIES.items():
        if options.only not in name:
            continue
        watch = Stopwatch()
        if options.profile:
            watch.profile = cProfile.Profile()
        with collecting_garbage_as_the_broker_does():
            story(watch, options.members)
        print(f"{name}, {options.members:,}:")
        for kind, (longest, count) in sorted(watch.take().items(), key=lambda each: -each[1][0]):
            if longest >= 1:
                print(f"  {longest:8.1f} ms {kind} ({count} steps){'   <-- too long' if longest > GOAL_MS else ''}")
        if watch.profile is not None:
            pstats.Stats(watch.profile).sort_stats("cumtime").print_stats(35)


if __name__ == "__main__":
    main()
