"""What a live broker says, and what the checks make of it: against a real `kohort serve`."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from kafka.structs import OffsetAndMetadata

from kohort.audit.checks.kit.baseline import Answers, BaselineError, GroupAnswer, agreed, ask
from tests.audit.checks.audited import Row, check_tables, explain, of_check, tables_of
from tests.audit.logs import Logs
from tests.clients.kohort import KohortProcess

RECORDS = 20
SHOP, BEYOND = "shop", "beyond"
TIMEOUT_MS = 30_000


@pytest.fixture(scope="module")
def kohort(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KohortProcess]:
    with KohortProcess(tmp_path_factory.mktemp("kohort"), group_initial_rebalance_delay_ms="0") as kohort:
        yield kohort


@pytest.fixture(scope="module")
def member(kohort: KohortProcess) -> Iterator[Any]:
    """A topic with records, a consumer that has read them and stays, and a group whose offsets were set by hand."""
    admin = KafkaAdminClient(bootstrap_servers=kohort.address)
    admin.create_topics([NewTopic("orders", 2, 1)])
    producer = KafkaProducer(bootstrap_servers=kohort.address)
    for number in range(2 * RECORDS):
        producer.send("orders", b"order", partition=number % 2)
    producer.flush()
    producer.close()
    consumer = KafkaConsumer(
        "orders", bootstrap_servers=kohort.address, group_id=SHOP, auto_offset_reset="earliest",
        enable_auto_commit=False,
    )  # fmt: skip
    left = 2 * RECORDS
    while left:
        polled = consumer.poll(timeout_ms=TIMEOUT_MS)
        assert polled
        left -= sum(map(len, polled.values()))
    consumer.commit()
    places = {TopicPartition("orders", 0): RECORDS + 5, TopicPartition("orders", 1): 3}
    admin.alter_group_offsets(BEYOND, {at: OffsetAndMetadata(offset, "", -1) for at, offset in places.items()})
    admin.close()
    yield consumer
    consumer.close()


def test_the_broker_is_asked_for_groups_offsets_owners_and_partitions(kohort: KohortProcess, member: Any) -> None:
    answers = ask(kohort.address)
    (member_id,) = {owner for _, owner in answers.groups[SHOP].owners or ()}
    assert answers.groups == {
        SHOP: GroupAnswer(
            "classic", "Stable", {("orders", 0): RECORDS, ("orders", 1): RECORDS},
            frozenset({(("orders", 0), member_id), (("orders", 1), member_id)}),
        ),
        BEYOND: GroupAnswer("classic", "Empty", {("orders", 0): RECORDS + 5, ("orders", 1): 3}, frozenset()),
    }  # fmt: skip
    assert answers.partitions["orders", 0] == answers.partitions["orders", 1] == (0, RECORDS)
    assert ("__consumer_offsets", 49) in answers.partitions
    assert set(ask(kohort.address, group=SHOP).groups) == {SHOP}


def check(kohort: KohortProcess, folder: Path) -> tuple[list[Row], list[Row]]:
    """The log in `folder` compared with what the broker says."""
    before = ask(kohort.address)
    tables = tables_of(folder)
    return check_tables(tables, baseline=agreed(before, ask(kohort.address)))


def test_a_log_that_says_the_same_is_clean(kohort: KohortProcess, member: Any) -> None:
    findings, results = check(kohort, kohort.data)
    print(explain(findings))
    assert of_check(findings, "state_differs_from_broker") == []
    assert of_check(results, "state_differs_from_broker")[0]["status"] == "clean"
    assert of_check(results, "subscribed_partition_without_owner")[0]["status"] == "clean"
    assert not [row for row in findings if row["group_id"] == SHOP]


def test_a_log_that_says_something_else_is_found(kohort: KohortProcess, member: Any, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(kohort.data, tmp_path / "data", ignore=shutil.ignore_patterns(".lock")))
    logs = Logs(copy)
    logs.group(SHOP).commit({"orders-1": 4}, by=None)
    logs.group(SHOP).empty(number=7)
    logs.close()
    findings, _ = check(kohort, copy)
    (found,) = of_check(findings, "state_differs_from_broker")
    assert (found["severity"], found["group_id"]) == ("critical", SHOP)
    assert (found["topic"], found["partition"], found["value"]) == ("orders", 1, 3.0)
    assert f"the committed offset of orders-1: the log says 4, the broker {RECORDS}" in found["message"]
    assert found["log_partition"] == logs.group(SHOP).log_partition


def test_offsets_that_are_not_in_the_topic_are_found(kohort: KohortProcess, member: Any) -> None:
    findings, _ = check(kohort, kohort.data)
    (beyond,) = of_check(findings, "committed_beyond_end_or_below_start")
    assert (beyond["severity"], beyond["group_id"], beyond["partition"]) == ("error", BEYOND, 0)
    assert beyond["message"] == f"offset {RECORDS + 5} is committed; orders-0 ends at {RECORDS}"
    assert beyond["value"] == 5.0

    admin = KafkaAdminClient(bootstrap_servers=kohort.address)
    admin.delete_records({TopicPartition("orders", 1): 10})
    admin.close()
    findings, _ = check(kohort, kohort.data)
    (below,) = of_check(findings, "committed_beyond_end_or_below_start", partition=1)
    assert below["group_id"] == BEYOND
    assert below["message"] == "offset 3 is committed; orders-1 starts at 10"


def test_what_changed_while_the_log_was_read_is_not_compared() -> None:
    before = GroupAnswer("classic", "Stable", {("t", 0): 1}, frozenset({(("t", 0), "m1")}))
    place = {("t", 0): (0, 9)}
    for now, offsets, owners in (
        (before, before.offsets, before.owners),
        (before._replace(offsets={("t", 0): 2}), None, before.owners),
        (before._replace(owners=frozenset()), before.offsets, None),
        (before._replace(state="PreparingRebalance", owners=None), before.offsets, None),
    ):
        both = agreed(Answers({"g": before}, {}), Answers({"g": now, "new": now}, place))
        assert both == Answers({"g": GroupAnswer("classic", now.state, offsets, owners)}, place)


def test_a_broker_that_is_not_there_is_said_so() -> None:
    for address, why in (
        ("127.0.0.1:1", "no broker answers at 127.0.0.1:1: Connection refused"),
        ("broker", "'broker' is not HOST:PORT"),
    ):
        with pytest.raises(BaselineError) as said:
            ask(address)
        assert str(said.value) == why
