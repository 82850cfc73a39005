"""Offsets as part of a transaction: TxnOffsetCommit by members and others, pending offsets, who deletes them."""

from __future__ import annotations

from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.delete_groups import DeleteGroupsRequest
from tests.group_requests import delete_offsets_request
from tests.parity.story import Member
from tests.parity.transaction_story import TV0, TransactionalProducer, TransactionStory, transaction_story

COMMIT = ApiKey.TXN_OFFSET_COMMIT
FETCH = ApiKey.OFFSET_FETCH
STABLE = range(7, 11)  # versions of OffsetFetch that can ask for stable offsets
WITH_MEMBERS = range(3, 6)  # versions of TxnOffsetCommit that can name a member
ADDS_FROM = 5


def with_group(s: TransactionStory, suffix: str = "", end: int = 5) -> TransactionalProducer:
    """A producer whose transaction has the group, by this or an older version of TxnOffsetCommit."""
    p = s.begun(suffix, versions={ApiKey.END_TXN: end})
    if p.version_of(COMMIT) < ADDS_FROM:
        p.add_offsets()
    return p


@transaction_story(COMMIT, None)
def offsets_need_a_transaction_in_old_versions(s: TransactionStory) -> None:
    topic = s.topic("", 2)
    p = s.begun()
    p.commit_offsets({(topic, 0): 5})
    s.describe_transactions()
    p.add_offsets()
    p.commit_offsets({(topic, 0): 6, (topic, 1): 7})
    s.fetch({topic: [0, 1]})
    p.commit_it()
    s.fetch({topic: [0, 1]})


@transaction_story(FETCH, STABLE)
def pending_offsets_are_unstable(s: TransactionStory) -> None:
    topic = s.topic("", 3)
    s.commit({(topic, 0): 1, (topic, 1): 2})
    p = with_group(s)
    p.commit_offsets({(topic, 0): 5, (topic, 2): 6})
    for stable in (False, True):
        s.fetch({topic: [0, 1, 2]}, stable=stable)
        s.fetch(stable=stable)
    p.commit_it()
    s.fetch({topic: [0, 1, 2]}, stable=True)
    s.fetch(stable=True)


@transaction_story(FETCH, STABLE)
def aborted_offsets_leave_the_old_ones(s: TransactionStory) -> None:
    topic = s.topic("", 2)
    s.commit({(topic, 0): 1})
    p = with_group(s)
    p.commit_offsets({(topic, 0): 5, (topic, 1): 6})
    p.abort()
    s.fetch({topic: [0, 1]}, stable=True)
    s.fetch(stable=True)


@transaction_story(COMMIT, (0, 4, 5))
def a_plain_commit_after_a_pending_one_wins(s: TransactionStory) -> None:
    topic = s.topic("", 1)
    p = with_group(s)
    p.commit_offsets({(topic, 0): 5})
    s.commit({(topic, 0): 3})
    s.fetch({topic: [0]})
    s.fetch({topic: [0]}, stable=True)
    p.commit_it()
    s.fetch({topic: [0]}, stable=True)


@transaction_story(COMMIT, (0, 4, 5))
def a_plain_commit_before_a_pending_one_loses(s: TransactionStory) -> None:
    topic = s.topic("", 1)
    s.commit({(topic, 0): 9})
    p = with_group(s)
    p.commit_offsets({(topic, 0): 5}, metadata="of a transaction")
    p.commit_it()
    s.fetch({topic: [0]}, stable=True)


@transaction_story(COMMIT, (0, 4, 5))
def two_transactions_with_the_same_partition(s: TransactionStory) -> None:
    topic = s.topic("", 1)
    a, b = with_group(s, "-a"), with_group(s, "-b")
    a.commit_offsets({(topic, 0): 5})
    b.commit_offsets({(topic, 0): 7})
    a.commit_offsets({(topic, 0): 6})
    b.commit_it()
    s.fetch({topic: [0]})
    s.fetch({topic: [0]}, stable=True)
    a.commit_it()
    s.fetch({topic: [0]}, stable=True)


@transaction_story(COMMIT, None)
def who_is_not_the_producer_commits_no_offsets(s: TransactionStory) -> None:
    at = (s.topic("", 1), 0)
    p, other = s.begun(), s.begun("-other")
    p.init()
    for added in (False, True):
        if added:
            p.add_offsets()
        for epoch in (p.epoch - 1, p.epoch + 1):
            p.commit_offsets({at: 5}, epoch=epoch)
        p.commit_offsets({at: 5}, producer_id=77_777)
        p.commit_offsets({at: 5}, transactional_id="")
        p.commit_offsets({at: 5}, transactional_id=s.group + "-nobody")
        p.commit_offsets({at: 5}, transactional_id=other.transactional_id)
    s.describe_transactions()
    s.fetch({at[0]: [0]})


@transaction_story(COMMIT, None)
def no_offsets_while_markers_are_on_their_way(s: TransactionStory) -> None:
    at = (s.topic("", 1), 0)
    p = s.begun()
    p.get_stuck(at)
    p.commit_offsets({at: 5})
    p.commit_offsets({at: 5}, epoch=p.epoch - 1)
    p.commit_offsets({at: 5}, producer_id=77_777)


@transaction_story(COMMIT, None)
def odd_groups_topics_and_metadata(s: TransactionStory) -> None:
    topic = s.topic("", 2)
    p = with_group(s)
    p.commit_offsets({(topic, 0): 5}, "")
    p.commit_offsets({(topic + "-unknown", 0): 5, (topic, 0): 6, (topic, 7): 7})
    p.commit_offsets({(topic, 0): 8, (topic, 1): 9}, metadata="m" * 4097)
    p.commit_offsets({(topic, 1): 9}, metadata=None)
    p.commit_offsets({(topic, 0): -1})
    p.commit_offsets({})
    s.describe_transactions()
    p.commit_it()
    s.fetch({topic: [0, 1]}, stable=True)


@transaction_story(COMMIT, WITH_MEMBERS)
def a_group_of_nobody_and_its_generation(s: TransactionStory) -> None:
    at = (s.topic("", 1), 0)
    p = with_group(s)
    p.commit_offsets({at: 1}, generation=1)
    p.commit_offsets({at: 2}, generation=0, member_id="someone")
    p.commit_offsets({at: 3}, member_id="someone")
    p.commit_offsets({at: 4}, instance="some-one")
    p.commit_offsets({at: 5})
    s.describe()
    p.commit_it()
    s.fetch({at[0]: [0]}, stable=True)
    s.describe()
    s.list_groups()


@transaction_story(COMMIT, WITH_MEMBERS)
def members_of_a_classic_group(s: TransactionStory) -> None:
    at = (s.topic("", 1), 0)
    (a,) = s.stable(1)
    p = with_group(s)
    _table(p, at, a, a.generation)
    p.commit_it()
    s.fetch({at[0]: [0]}, stable=True)


@transaction_story(COMMIT, WITH_MEMBERS)
def members_of_a_classic_group_that_wait_for_their_assignment(s: TransactionStory) -> None:
    at = (s.topic("", 1), 0)
    a, _ = s.completing(2)
    p = with_group(s)
    _table(p, at, a, a.generation)


@transaction_story(COMMIT, WITH_MEMBERS)
def members_of_a_classic_group_that_prepares_a_rebalance(s: TransactionStory) -> None:
    at = (s.topic("", 1), 0)
    (a,) = s.stable(1)
    s.member().send_enter()
    s.until("PreparingRebalance", 2)
    p = with_group(s)
    _table(p, at, a, a.generation)


@transaction_story(COMMIT, WITH_MEMBERS)
def a_classic_group_that_is_empty_again(s: TransactionStory) -> None:
    at = (s.topic("", 1), 0)
    (a,) = s.stable(1)
    a.leave()
    p = with_group(s)
    _table(p, at, a, a.generation)
    p.commit_it()
    s.fetch({at[0]: [0]}, stable=True)


@transaction_story(COMMIT, WITH_MEMBERS)
def static_members_of_a_classic_group(s: TransactionStory) -> None:
    at = (s.topic("", 1), 0)
    a = s.member(instance="one")
    a.join()
    a.sync([a])
    p = with_group(s)
    p.commit_offsets({at: 1}, generation=a.generation, member_id=a.id, instance="one")
    p.commit_offsets({at: 2}, generation=a.generation, member_id=a.id, instance="two")
    p.commit_offsets({at: 3}, generation=a.generation, member_id="another", instance="one")
    p.commit_offsets({at: 4}, generation=a.generation, member_id=a.id)
    p.commit_offsets({at: 5}, generation=a.generation, instance="one")
    p.commit_it()
    s.fetch({at[0]: [0]}, stable=True)


@transaction_story(COMMIT, WITH_MEMBERS)
def members_of_a_consumer_group(s: TransactionStory) -> None:
    """KIP-848: the generation is the member's epoch."""
    topic = s.topic("", 1)
    at = (topic, 0)
    (a,) = s.consumers(topic, "a")
    p = with_group(s)
    _table(p, at, a, a.epoch)
    p.commit_it()
    s.fetch({topic: [0]}, stable=True)
    a.leave_group()
    if s.version < ADDS_FROM:
        p.add_offsets()
    _table(p, at, a, a.epoch)


def _table(p: TransactionalProducer, at: tuple[str, int], member: Member, generation: int) -> None:
    """Who may be named: nobody, the member, others; in this generation and in others."""
    for number in (-1, generation - 1, generation, generation + 1):
        for name in ("", member.id, "somebody"):
            p.commit_offsets({at: 10}, generation=number, member_id=name)


@transaction_story(ApiKey.OFFSET_DELETE, None)
def pending_offsets_are_deleted(s: TransactionStory) -> None:
    topic = s.topic("", 2)
    s.commit({(topic, 1): 1})
    p = with_group(s)
    p.commit_offsets({(topic, 0): 5, (topic, 1): 6})
    s.ask(ApiKey.OFFSET_DELETE, delete_offsets_request(s.group, (topic, [0, 1])))
    s.fetch({topic: [0, 1]}, stable=True)
    p.commit_it()
    s.fetch({topic: [0, 1]}, stable=True)


@transaction_story(ApiKey.DELETE_GROUPS, None)
def a_group_with_pending_offsets_is_deleted(s: TransactionStory) -> None:
    topic = s.topic("", 1)
    p = with_group(s)
    p.commit_offsets({(topic, 0): 5})
    s.list_groups()
    s.ask(ApiKey.DELETE_GROUPS, DeleteGroupsRequest([s.group]))
    s.fetch({topic: [0]}, stable=True)
    p.commit_it()
    s.fetch({topic: [0]}, stable=True)
    s.describe()
    s.list_groups()


@transaction_story(ApiKey.LIST_GROUPS, (5,))
def a_group_with_nothing_but_aborted_offsets(s: TransactionStory) -> None:
    topic = s.topic("", 1)
    p = with_group(s)
    p.commit_offsets({(topic, 0): 5})
    s.list_groups()
    s.describe()
    p.abort()
    s.list_groups()
    s.describe()
    s.fetch({topic: [0]}, stable=True)


@transaction_story(COMMIT, None)
def records_and_offsets_end_together(s: TransactionStory) -> None:
    topic = s.topic("", 2)
    p = with_group(s)
    for number, commit in enumerate((True, False, True)):
        if number and s.version < ADDS_FROM:
            p.add_offsets()
        p.produce((topic, 1), 2)
        p.commit_offsets({(topic, 0): 10 + number})
        s.describe_transactions()
        p.end(commit)
        s.fetch({topic: [0]}, stable=True)
    s.read_all((topic, 1))


@transaction_story(COMMIT, None)
def offsets_of_a_client_of_the_first_version(s: TransactionStory) -> None:
    topic = s.topic("", 2)
    p = s.begun(versions=TV0 | {ApiKey.ADD_OFFSETS_TO_TXN: 0, ApiKey.END_TXN: 1})
    for commit in (True, False, True):
        p.add_offsets()
        p.commit_offsets({(topic, 0): 5, (topic, 1): 6})
        p.end(commit)
        s.fetch({topic: [0, 1]}, stable=True)


@transaction_story(COMMIT, (3, 5))
def a_topic_is_deleted_while_its_offsets_are_pending(s: TransactionStory) -> None:
    stays, goes = s.topic("-stays", 1), s.topic("-goes", 1)
    p = with_group(s)
    p.commit_offsets({(stays, 0): 5, (goes, 0): 6})
    s.delete_topic(goes)
    p.commit_it()
    s.fetch({stays: [0]}, stable=True)
