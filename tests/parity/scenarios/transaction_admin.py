"""DescribeTransactions and ListTransactions, and what administrators may do with the topics of the broker."""

from __future__ import annotations

from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kohort.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kohort.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kohort.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.parity.transaction_log import TRANSACTION_STATE
from tests.parity.transaction_story import TV0, TransactionStory, transaction_story

LIST = ApiKey.LIST_TRANSACTIONS
DESCRIBE = ApiKey.DESCRIBE_TRANSACTIONS
HOUR_MS = 3_600_000
TOPIC_RESOURCE = 2
STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)


@transaction_story(DESCRIBE, None)
def transactions_in_each_state_are_described(s: TransactionStory) -> None:
    names = in_each_state(s)
    s.describe_transactions(*names)
    s.describe_transactions(*names[:2], s.group + "-nobody", "", *names[:2])
    s.ask(DESCRIBE, DescribeTransactionsRequest([]))


def in_each_state(s: TransactionStory) -> list[str]:
    topic = s.topic("", 4)
    s.begun("-empty")
    s.begun("-ongoing").begin((topic, 0), (topic, 2))
    s.begun("-stuck-c").get_stuck((topic, 1))
    s.begun("-stuck-a").get_stuck((topic, 3), commit=False)
    committed, aborted = s.begun("-committed"), s.begun("-aborted")
    committed.begin((topic, 0))
    committed.commit_it()
    aborted.begin((topic, 0))
    aborted.abort()
    return [f"{s.group}-{word}" for word in ("empty", "ongoing", "stuck-c", "stuck-a", "committed", "aborted")]


@transaction_story(LIST, None)
def transactions_are_listed_by_state(s: TransactionStory) -> None:
    in_each_state(s)
    s.list_transactions()
    for state in STATES:
        s.list_transactions([state])
    s.list_transactions(["Empty", "Ongoing", "Empty"])
    for wrong in ("empty", "ONGOING", "", "Nonsense", "Unknown", "PrepareCommit "):
        s.list_transactions([wrong])
    s.list_transactions(["Nonsense", "Ongoing", "empty", "Nonsense"])


@transaction_story(LIST, None)
def transactions_are_listed_by_producer_id(s: TransactionStory) -> None:
    a, b = s.begun("-a"), s.begun("-b")
    s.list_transactions(producer_ids=[a.producer_id])
    s.list_transactions(producer_ids=[b.producer_id, a.producer_id, b.producer_id])
    s.list_transactions(producer_ids=[a.producer_id, 77_777_777])
    for unknown in (77_777_777, -1):
        s.list_transactions(producer_ids=[unknown])
    s.list_transactions(["Ongoing"], [a.producer_id])
    s.list_transactions(["Empty"], [a.producer_id])


@transaction_story(LIST, (1, 2))
def transactions_are_listed_by_duration(s: TransactionStory) -> None:
    topic = s.topic("", 1)
    s.begun("-empty")
    s.begun("-ongoing").begin((topic, 0))
    done = s.begun("-done")
    done.begin((topic, 0))
    done.commit_it()
    for duration_ms in (-1, -2, 0, HOUR_MS, 9223372036854775807, -9223372036854775808):
        s.list_transactions(duration_ms=duration_ms)
    s.list_transactions(["Empty"], duration_ms=0)


@transaction_story(LIST, (2,))
def transactions_are_listed_by_pattern(s: TransactionStory) -> None:
    for name in ("-a1", "-a2", "-b1"):
        s.begun(name)
    g = s.group
    for pattern in (g + "-a1", g + "-a", g + "-a.", g + "-[ab]1", ".*-a1", "", ".*", "nothing", "a1", None):
        s.list_transactions(pattern=pattern)
    for bad in ("[", "(", "*", "a{", "\\"):
        s.list_transactions(pattern=bad)
    s.list_transactions(["Ongoing"], pattern=g + ".*")
    s.list_transactions(["Nonsense"], pattern="[")
    for java in (g + r"-\p{Lower}\d", rf"\Q{g}\E-.1", f"(?i){g.upper()}-A1", g + "-a1|x", g + "-(?:a1|b1)"):
        s.list_transactions(pattern=java)


@transaction_story(LIST, (2,))
def an_old_clients_transactions_are_listed(s: TransactionStory) -> None:
    p = s.begun(versions=TV0)
    p.add()
    s.list_transactions(["Ongoing"])
    p.commit_it()
    s.list_transactions(["CompleteCommit"])


@transaction_story(ApiKey.DESCRIBE_CONFIGS, (4,))
def settings_of_the_topic_of_transactions(s: TransactionStory) -> None:
    names = (
        *("cleanup.policy", "compression.type", "segment.bytes", "min.insync.replicas"),
        "unclean.leader.election.enable",
    )
    asked = DescribeConfigsResource(TOPIC_RESOURCE, TRANSACTION_STATE, list(names))
    answer = s.ask(ApiKey.DESCRIBE_CONFIGS, DescribeConfigsRequest([asked], include_synonyms=False))
    assert answer is not None


@transaction_story(ApiKey.METADATA, None)
def the_topic_of_transactions_is_internal(s: TransactionStory) -> None:
    request = MetadataRequest([MetadataRequestTopic(name=TRANSACTION_STATE)], False)
    answer = s.ask(ApiKey.METADATA, request)
    for topic in answer.topics:
        topic.partitions = sorted(topic.partitions, key=lambda each: each.partition_index)


@transaction_story(ApiKey.DELETE_RECORDS, None)
def records_of_the_brokers_topics_are_not_deleted(s: TransactionStory) -> None:
    for name in (TRANSACTION_STATE, "__consumer_offsets"):
        asked = DeleteRecordsTopic(name, [DeleteRecordsPartition(0, 0)])
        s.ask(ApiKey.DELETE_RECORDS, DeleteRecordsRequest([asked], 10_000))
