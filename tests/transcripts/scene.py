"""Scenes with a coordinator and its clients, told as text: commands, a line `----`, and what was said.

    # a comment, for the reader
    join anna                          JoinGroup, twice if the broker wants it: first for an id, then with it
    join anna instance=desk            ... as a static member
    join anna topics=orders,payments   ... with another subscription than orders
    sync anna                          SyncGroup of a follower
    sync anna anna=0,1 ben=2,3         SyncGroup of the leader: who gets which partitions of orders
    heartbeat anna                     Heartbeat
    commit anna orders-0=5             OffsetCommit, with `generation=1` another one than she is in
    fetch anna orders-0                OffsetFetch
    leave anna                         LeaveGroup
    restart anna                       her process starts anew: the next join is without an id
    wait 5s [anna ben]                 time passes; those who are named send a heartbeat every second
    describe                           the group, as DescribeGroups shows it
    disk slow | disk catches up | disk fails
    kill broker                        kill -9, and a new start from what the disk holds

Below the line, each with its time: answers (`->` to whom), calls that are parked, states that the group enters, and the
records that are durable. Member ids are shown as anna#1 instead of anna-2f0c...: the first that anna was given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from kohort.coordinator.shard import Status
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.log_records import OFFSET_COMMIT
from kohort.protocol.messages.consumer_protocol import ConsumerProtocolAssignment
from kohort.protocol.messages.consumer_protocol import TopicPartition as AssignedTopic
from kohort.protocol.subscription import pack_assignment, read_assignment
from tests.coordinator.members import Member, fetched, leave, send_fetch
from tests.coordinator.support import START, Call, Host
from tests.group_requests import subscription

LINE = "----"
GROUP = "group"


class Scene:
    """Runs commands; `told` gathers what was said."""

    def __init__(self) -> None:
        self.host = Host()
        self.members: dict[str, Member] = {}
        self.told: list[str] = []
        self._calls: list[tuple[str, str, Call]] = []  # (whom, what, call) of those that are not answered
        self._ids: dict[str, str] = {}
        self._state = ""
        self._records = 0

    def run(self, command: str) -> str:
        self.told = []
        word, *rest = command.split()
        method: Callable[..., None] = getattr(self, f"_do_{word}")
        method(*rest)
        self._look()
        return "\n".join(self.told) or "(nothing)"

    # --- commands

    def _do_join(self, name: str, *options: str) -> None:
        how = dict(option.split("=") for option in options)
        member = self.members.get(name)
        if member is None:
            member = self.members[name] = Member(self.host, GROUP, name, instance_id=how.get("instance"))
        if "topics" in how:
            member.protocols = [("range", subscription(*how["topics"].split(",")))]
        call = member.ask_to_join()
        if call.is_answered and call.error is ErrorCode.MEMBER_ID_REQUIRED:
            self._hear(name, "JoinGroup", call)
            member.member_id = call.answer.member_id
            call = member.ask_to_join()
        self._hear(name, "JoinGroup", call)

    def _do_restart(self, name: str) -> None:
        """The client's process: it has forgotten its id."""
        self.members[name].member_id = ""
        self._calls = [each for each in self._calls if each[0] != name]

    def _do_sync(self, name: str, *shares: str) -> None:
        assignments = {}
        for share in shares:
            owner, _, partitions = share.partition("=")
            rows = [AssignedTopic("orders", [int(p) for p in partitions.split(",") if p])]
            assignments[self.members[owner].member_id] = pack_assignment(ConsumerProtocolAssignment(rows), 0)
        self._hear(name, "SyncGroup", self.members[name].sync(assignments))

    def _do_heartbeat(self, name: str) -> None:
        self._hear(name, "Heartbeat", self.members[name].send_heartbeat())

    def _do_commit(self, name: str, *offsets: str) -> None:
        named = dict(each.split("=") for each in offsets)
        generation = int(named.pop("generation", self.members[name].generation))
        committed = {_place(place): int(offset) for place, offset in named.items()}
        self._hear(name, "OffsetCommit", self.members[name].send_commit(committed, generation=generation))

    def _do_fetch(self, name: str, *places: str) -> None:
        self._hear(name, "OffsetFetch", send_fetch(self.host, GROUP, [_place(each) for each in places]))

    def _do_leave(self, name: str) -> None:
        self._hear(name, "LeaveGroup", leave(self.host, GROUP, (self.members[name].member_id, None)))

    def _do_wait(self, time: str, *alive: str) -> None:
        """In steps of a second, so that each thing is told when it happens."""
        remaining = int(float(time.removesuffix("s")) * 1_000)
        while remaining > 0:
            step = min(1_000, remaining)
            self.host.advance(step)
            remaining -= step
            self._look()
            for name in alive:
                call = self.members[name].send_heartbeat()
                if not call.is_answered or call.error:
                    self._hear(name, "Heartbeat", call)

    def _do_describe(self) -> None:
        described = self.host.describe(GROUP)
        self._tell(f"{described.group_state}, {len(described.members)} members")
        for member in described.members:
            self._tell(f"  {self._short(member.member_id)}: {_partitions(member.member_assignment)}")

    def _do_disk(self, *what: str) -> None:
        match " ".join(what):
            case "slow":
                self.host.disk.is_slow = True
            case "catches up":
                self.host.disk_catches_up()
            case "fails":
                self.host.disk_fails()
                self._look()
                self._tell("the shard loads its log again")
                self.host.load()

    def _do_kill(self, _broker: str) -> None:
        self.host.crash()
        self._calls = []
        self._tell("every connection is gone; the new broker has replayed its log")

    # --- telling

    def _tell(self, text: str) -> None:
        self.told.append(f"{(self.host.now - START) / 1_000:7.3f} s  {text}")

    def _look(self) -> None:
        """Whatever has happened since: answers, records, states."""
        waiting, self._calls = self._calls, []
        for name, what, call in waiting:
            self._hear(name, what, call, again=True)
        self._look_into_the_log()
        shard = self.host.shard_of(GROUP)
        group = shard.state.groups.get(GROUP)  # not by DescribeGroups, which waits for the disk
        state = group.state_name if group is not None else "Dead"
        if state != self._state and shard.status is Status.ACTIVE:
            self._tell(f"group is {state}")
            self._state = state

    def _look_into_the_log(self) -> None:
        for kind, key, value in self.host.records_of(GROUP)[self._records :]:
            self._tell("log: " + self._record(kind, key, value))
            self._records += 1

    def _hear(self, name: str, what: str, call: Call, *, again: bool = False) -> None:
        if not call.is_answered:
            self._calls.append((name, what, call))
            if not again:
                self._tell(f"{name}'s {what} is parked")
            return
        self._look_into_the_log()  # an answer comes after what it rests on
        self.members[name].learn()
        self._tell(f"-> {name}: {what}: {self._answer(what, call)}")

    def _answer(self, what: str, call: Call) -> str:
        answer = call.answer
        match what:
            case "JoinGroup" if call.error is ErrorCode.MEMBER_ID_REQUIRED:
                return f"{call.error.name}, take {self._short(answer.member_id)}"
            case "JoinGroup" if not call.error:
                leads = f"leads {[self._short(each.member_id) for each in answer.members]}" if answer.members else ""
                leads = leads.replace("'", "") or f"{self._short(answer.leader)} leads"
                return f"{self._short(answer.member_id)} is in generation {answer.generation_id}, {leads}"
            case "SyncGroup" if not call.error:
                return _partitions(answer.assignment)
            case "OffsetCommit":
                errors = {ErrorCode(p.error_code).name for topic in answer.topics for p in topic.partitions}
                return " ".join(sorted(errors))
            case "OffsetFetch":
                return ", ".join(
                    f"{topic}-{p} at {each.committed_offset}" for (topic, p), each in fetched(call).items()
                )
            case "LeaveGroup" if not call.error:
                return ErrorCode(answer.members[0].error_code).name
        return call.error.name

    def _record(self, kind: int, key: Any, value: Any) -> str:
        if kind == OFFSET_COMMIT:
            return f"{key.topic}-{key.partition} " + ("is forgotten" if value is None else f"at {value.offset}")
        if value is None:
            return "the group is gone"
        members = ", ".join(f"{self._short(each.member_id)}: {_partitions(each.assignment)}" for each in value.members)
        return f"generation {value.generation}, " + (members or "nobody")

    def _short(self, member_id: str) -> str:
        """anna-2f0c... becomes anna#1."""
        if member_id not in self._ids:
            name = member_id[:-37]
            self._ids[member_id] = f"{name}#{1 + sum(1 for known in self._ids if known[:-37] == name)}"
        return self._ids[member_id]


def _place(text: str) -> tuple[str, int]:
    topic, _, partition = text.rpartition("-")
    return topic, int(partition)


def _partitions(assignment: bytes) -> str:
    if not assignment:
        return "no partitions"
    topics = read_assignment(assignment).assigned_partitions
    return "; ".join(f"{topic.topic} {','.join(map(str, topic.partitions))}" for topic in topics) or "no partitions"


# --- files


def blocks(text: str) -> Iterator[tuple[list[str], str | None]]:
    """(comments and blank lines before it, command); at the end None instead of a command."""
    before: list[str] = []
    lines = iter(text.splitlines())
    for line in lines:
        if not line or line.startswith("#"):
            before.append(line)
            continue
        yield before, line
        assert next(lines, LINE) == LINE, f"after {line!r} comes {LINE}"
        for said in lines:  # what was said before, up to the next blank line
            if not said:
                break
        before = [""]
    yield before, None


def played(text: str) -> str:
    """The transcript with what is said now below each line."""
    scene, out = Scene(), []
    for before, command in blocks(text):
        out += before
        if command is not None:
            out += [command, LINE, scene.run(command)]
    return "\n".join(out).rstrip("\n") + "\n"


def transcripts() -> list[Path]:
    return sorted(Path(__file__).parent.glob("*.txt"))
