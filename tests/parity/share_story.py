"""Share groups (KIP-932) as scenarios: members that heartbeat, fetch and acknowledge, each on a connection of its own.

Delivery does not ask who is a member, so stories about records begin with AlterShareGroupOffsets, which says where the
group starts (`shared`), and need no heartbeats. Partitions are initialized after the heartbeat has been answered:
`settle` sends heartbeats that are not written down until the members have what they shall have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.find_coordinator import FindCoordinatorRequest
from kohort.protocol.messages.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from kohort.protocol.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from kohort.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from kohort.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from tests.parity.batches import batch
from tests.parity.consumer_story import ConsumerStory
from tests.parity.pairs import SHARES
from tests.parity.peer import Peer
from tests.parity.story import Member, Register, story_of
from tests.share_requests import (
    ACCEPT,
    CLOSE,
    GAP,
    OPEN,
    REJECT,
    RELEASE,
    RENEW,
    Acknowledgement,
    Acknowledgements,
    Partition,
    alter_offsets_request,
    describe_offsets_request,
    share_acknowledge_request,
    share_fetch_request,
)

JOIN, LEAVE = 0, -1  # member epochs
AT_ONCE_MS = 300  # a fetch that is to find nothing waits this long
SHARE_KEY = 2  # of FindCoordinator
NO_SUCH_TOPIC_ID = bytes(15) + b"\7"


def share_story(
    api_key: ApiKey = ApiKey.SHARE_FETCH, versions: Iterable[int] | None = (2,), *, pair: str = SHARES
) -> Register[ShareStory]:
    """Registers a story, for the given versions of the API or (None) for all of them."""
    return story_of(ShareStory, api_key, versions, pair)


# --- what can be said about records; lists of these are added up


def _said(first: int, last: int | None, kind: int) -> list[Acknowledgement]:
    return [(first, first if last is None else last, [kind])]


def accept(first: int, last: int | None = None) -> list[Acknowledgement]:
    return _said(first, last, ACCEPT)


def release(first: int, last: int | None = None) -> list[Acknowledgement]:
    return _said(first, last, RELEASE)


def reject(first: int, last: int | None = None) -> list[Acknowledgement]:
    return _said(first, last, REJECT)


def gap(first: int, last: int | None = None) -> list[Acknowledgement]:
    return _said(first, last, GAP)


def renew(first: int, last: int | None = None) -> list[Acknowledgement]:
    return _said(first, last, RENEW)


class ShareStory(ConsumerStory):
    def __init__(self, peer: Peer, api_key: ApiKey) -> None:
        super().__init__(peer, api_key)
        self.peer.wait_until(self._has_share_coordinator, "a share coordinator")

    def _has_share_coordinator(self) -> bool:
        request = FindCoordinatorRequest("", SHARE_KEY, ["g:AAAAAAAAAAAAAAAAAAAAAQ:0"])
        answer = self.peer.quietly(ApiKey.FIND_COORDINATOR, request, 6)
        return bool(answer.coordinators[0].error_code == 0)

    def sharer(self, name: str, group: str | None = None) -> Sharer:
        """A member whose id is `name`."""
        sharer = Sharer(self, self.group if group is None else group, name)
        self._members.append(sharer)
        return sharer

    def sharers(self, topic: str, *names: str, partitions: int) -> list[Sharer]:
        """Members that have joined one after the other, each of them with all of its partitions.

        Which of several partitions the second and later ones get depends on the topic's id."""
        sharers = [self.sharer(names[0])]
        sharers[0].start(topic)
        self.settle(*sharers, partitions=partitions)
        for name in names[1:]:
            sharers.append(self.sharer(name))
            with self.unwritten():
                sharers[-1].start(topic)
            self.settle(*sharers, partitions=partitions)
        return sharers

    def settle(self, *sharers: Sharer, partitions: int, group: str | None = None) -> None:
        """Heartbeats of all in turn, until so many partitions are assigned and everyone has the newest epoch."""

        def settled() -> bool:
            with self.unwritten():
                for sharer in sharers:
                    sharer.beat()
            seen = self.look_at_sharers(group)
            has = {(topic, each) for sharer in sharers for topic, own in sharer.assigned.items() for each in own}
            newest = all(each.member_epoch == seen.group_epoch == seen.assignment_epoch for each in seen.members)
            return newest and len(has) == partitions

        self.peer.wait_until(settled, f"{partitions} assigned partitions")

    @contextmanager
    def unwritten(self) -> Iterator[None]:
        """What is asked meanwhile does not stand in the transcript."""
        kept = len(self.peer.exchanges)
        yield
        del self.peer.exchanges[kept:]

    # --- groups that begin somewhere

    def shared(self, *counts: int, start: int = 0, suffix: str = "", **batches: Any) -> Partition:
        """A partition with batches of so many records, from which the group reads from offset `start` on."""
        topic = self.topic(suffix, 1)
        self.begin({(topic, 0): start})
        self.peer.append(topic, *(batch(count, **batches) for count in counts))
        return topic, 0

    def shared_partitions(self, partitions: int, count: int) -> list[Partition]:
        """Partitions that the group has read from before; in each, `count` records from offset 1 on in one batch."""
        topic = self.topic("", partitions)
        all_of_them = [(topic, index) for index in range(partitions)]
        self.begin(dict.fromkeys(all_of_them, 0))
        with self.unwritten():
            for at in all_of_them:
                self.peer.append(topic, batch(1), partition=at[1])
                first = self.sharer("first")
                first.fetch(at)
                first.acknowledge({at: accept(0)})
                first.fetch(epoch=CLOSE)
        for at in all_of_them:
            self.peer.append(topic, batch(count), partition=at[1])
        return all_of_them

    def begin(self, offsets: Mapping[Partition, int], group: str | None = None) -> None:
        request = alter_offsets_request(self.group if group is None else group, offsets)
        answer = self.peer.quietly(ApiKey.ALTER_SHARE_GROUP_OFFSETS, request, 0)
        errors = [each.error_code for topic in answer.responses for each in topic.partitions]
        assert not any([answer.error_code, *errors]), f"{self.peer.name}: {answer.error_code}, {errors}"

    def set_share(self, **configs: str) -> None:
        """Settings of this group, without `share.`; they are in force when this returns."""
        self.set_share_of(self.group, **configs)

    def set_share_of(self, group: str, **configs: str) -> None:
        self.set_group(group, **{f"share_{name}": value for name, value in configs.items()})

    def topic_id(self, name: str) -> bytes:
        """Of a topic that does not exist: an id that no topic has."""
        return self.topic_ids.get(name, NO_SUCH_TOPIC_ID)

    def hang_up(self, *sharers: Sharer) -> None:
        """Their sessions are closed already. Until the last of a group has hung up, Kafka's leader keeps its records in
        mind; it hears of that a little later, but before a new topic."""
        for sharer in sharers:
            sharer.hang_up()
            sharer.session_epoch = OPEN
        self.topic(f"-later-{len(self.topic_ids)}", 1)

    # --- looking

    def describe_sharers(self, *groups: str, operations: bool = False) -> Any:
        request = ShareGroupDescribeRequest(list(groups) or [self.group], operations)
        return self.ask(ApiKey.SHARE_GROUP_DESCRIBE, request)

    def note_shares(self) -> None:
        """The described group, where ids of topics decide who has which partitions: how many each member has."""
        seen = self.look_at_sharers()
        self.peer.note("group", (seen.error_code, seen.group_state, seen.group_epoch, seen.assignment_epoch))
        shares = {
            member.member_id: [each for topic in member.assignment.topic_partitions for each in topic.partitions]
            for member in seen.members
        }
        self.peer.note("members", sorted((each.member_id, each.member_epoch) for each in seen.members))
        self.peer.note("shares", sorted((name, len(has)) for name, has in shares.items()))
        self.peer.note("members of a partition", sorted(Counter(p for has in shares.values() for p in has).values()))

    def look_at_sharers(self, group: str | None = None) -> Any:
        """The described group, without a line in the transcript."""
        request = ShareGroupDescribeRequest([self.group if group is None else group])
        return self.peer.quietly(ApiKey.SHARE_GROUP_DESCRIBE, request, 1).groups[0]

    def until_group_epoch(self, epoch: int) -> None:
        self.peer.wait_until(lambda: self.look_at_sharers().group_epoch >= epoch, f"group epoch {epoch}")

    def share_offsets(self, *partitions: Partition, group: str | None = None) -> Any:
        """DescribeShareGroupOffsets of these partitions; without any, of all."""
        topics: dict[str, list[int]] = {}
        for topic, index in partitions:
            topics.setdefault(topic, []).append(index)
        name = self.group if group is None else group
        return self.ask(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, describe_offsets_request((name, topics or None)))


class Sharer(Member):
    """A member of a share group: its heartbeats, and its share session with the leader of the partitions."""

    story: ShareStory

    def __init__(self, story: ShareStory, group: str, name: str) -> None:
        super().__init__(story, group)
        self.id = name
        self.epoch = JOIN
        self.session_epoch = OPEN
        self.assigned: dict[str, list[int]] = {}
        self._sent_epoch = OPEN

    # --- heartbeats

    def send_beat(
        self,
        *,
        topics: Sequence[str] | None = None,
        epoch: int | None = None,
        member_id: str | None = None,
        rack: str | None = None,
    ) -> None:
        """ShareGroupHeartbeat with what is given; everything else is as it was."""
        request = ShareGroupHeartbeatRequest(
            self.group,
            self.id if member_id is None else member_id,
            self.epoch if epoch is None else epoch,
            rack,
            topics,
        )
        self.send(ApiKey.SHARE_GROUP_HEARTBEAT, request)

    def beat(self, **fields: Any) -> Any:
        self.send_beat(**fields)
        return self.take()

    def start(self, *topics: str, **fields: Any) -> Any:
        return self.beat(epoch=JOIN, topics=list(topics), **fields)

    def leave_group(self) -> Any:
        return self.beat(epoch=LEAVE)

    # --- records

    def send_fetch(
        self,
        *partitions: Partition,
        ack: Acknowledgements | None = None,
        epoch: int | None = None,
        member_id: str | None = "its own",
        group: str | None = "its own",
        **options: Any,
    ) -> None:
        """ShareFetch with the session's epoch. Without partitions: those that the session has."""
        request = share_fetch_request(
            self.group if group == "its own" else group,
            self.id if member_id == "its own" else member_id,
            self.session_epoch if epoch is None else epoch,
            partitions,
            ack,
            id_of=self.story.topic_id,
            **options,
        )
        self.send_share_fetch(request)

    def send_share_fetch(self, request: ShareFetchRequest) -> None:
        self._sent_epoch = request.share_session_epoch
        self.send(ApiKey.SHARE_FETCH, request)

    def fetch(self, *partitions: Partition, **options: Any) -> Any:
        self.send_fetch(*partitions, **options)
        return self.take()

    def find_nothing(self, *partitions: Partition, **options: Any) -> Any:
        """A fetch that gives up soon."""
        return self.fetch(*partitions, max_wait_ms=AT_ONCE_MS, **options)

    def send_acknowledge(
        self,
        said: Acknowledgements,
        *,
        epoch: int | None = None,
        member_id: str | None = "its own",
        group: str | None = "its own",
        renew: bool = False,
    ) -> None:
        request = share_acknowledge_request(
            self.group if group == "its own" else group,
            self.id if member_id == "its own" else member_id,
            self.session_epoch if epoch is None else epoch,
            said,
            id_of=self.story.topic_id,
            renew=renew,
        )
        self.send_share_acknowledge(request)

    def send_share_acknowledge(self, request: ShareAcknowledgeRequest) -> None:
        self._sent_epoch = request.share_session_epoch
        self.send(ApiKey.SHARE_ACKNOWLEDGE, request)

    def acknowledge(self, said: Acknowledgements, **options: Any) -> Any:
        self.send_acknowledge(said, **options)
        return self.take()

    def close_session(self) -> Any:
        return self.fetch(epoch=CLOSE)

    def _learn(self, answer: Any) -> None:
        if isinstance(answer, (ShareFetchResponse, ShareAcknowledgeResponse)) and not answer.error_code:
            self.session_epoch = OPEN if self._sent_epoch == CLOSE else self._sent_epoch + 1
        if not isinstance(answer, ShareGroupHeartbeatResponse) or answer.error_code:
            return
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            names: dict[Any, str] = {self.story.peer.words_for(i): name for name, i in self.story.topic_ids.items()}
            self.assigned = {names[each.topic_id]: list(each.partitions) for each in answer.assignment.topic_partitions}
