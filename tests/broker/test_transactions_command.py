"""`kohort transactions` as an operator uses it: on a running broker, with good, bad and strange arguments."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kohort.protocol.api_keys import ApiKey
from tests.broker.test_groups_command import KOHORT, Done, run
from tests.clients.kohort import KohortProcess
from tests.parity.batches import batch
from tests.parity.peer import Peer
from tests.parity.transaction_story import TV0, TransactionStory

YESTERDAY_MS = round(time.time() * 1000) - 86_400_000
NEVER_VERIFIED = {"transaction_partition_verification_enable": "false"}


class Operator:
    """Types commands, and makes the transactions that they are about."""

    def __init__(self, address: str, name: str) -> None:
        self.address = address
        self.peer = Peer("broker", address)
        self.peer.begin(name, 5)
        self.story = TransactionStory(self.peer, ApiKey.END_TXN)
        self.topic = self.peer.create(partitions=3)
        self.id = self.story.group

    def transactions(self, *arguments: str) -> Done:
        return run([KOHORT, "transactions", *arguments, "--bootstrap-server", self.address])

    def lines(self, *arguments: str) -> list[str]:
        """What it prints, if nothing was refused."""
        done = self.transactions(*arguments)
        assert (done.returncode, done.stderr) == (0, ""), done
        return done.stdout.splitlines()

    def rows(self, *arguments: str) -> list[list[str]]:
        """The words of each line."""
        return [line.split() for line in self.lines(*arguments)]

    def said(self, *arguments: str, status: int = 1) -> str:
        """The one line on standard error, where nothing is printed."""
        done = self.transactions(*arguments)
        assert (done.returncode, done.stdout) == (status, ""), done
        return done.stderr.splitlines()[0].removeprefix("kohort: ")

    def state(self, transactional_id: str) -> str:
        told: str = self.story.look_at(transactional_id).transaction_state
        return told

    def close(self) -> None:
        self.story.close()
        self.peer.end()
        self.peer.hang_up()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KohortProcess]:
    with KohortProcess(tmp_path_factory.mktemp("transactions"), **NEVER_VERIFIED) as running:
        yield running


@pytest.fixture
def operator(broker: KohortProcess, request: pytest.FixtureRequest) -> Iterator[Operator]:
    made = Operator(broker.address, request.node.name)
    yield made
    made.close()


def test_before_anybody_had_a_transaction_there_is_nothing_to_show(tmp_path: Path) -> None:
    with KohortProcess(tmp_path) as broker:
        command = [KOHORT, "transactions", "--bootstrap-server", broker.address]
        listed, described, hanging = (
            run([*command[:2], action, *command[2:]]) for action in ("list", "describe", "find-hanging")
        )
        assert (listed.returncode, listed.stdout.split()) == (
            0, ["TRANSACTIONAL-ID", "COORDINATOR", "PRODUCER-ID", "STATE"]
        )  # fmt: skip
        assert (described.returncode, described.stderr) == (0, "kohort: there are no open transactions\n")
        assert (hanging.returncode, hanging.stderr) == (0, "kohort: there are no hanging transactions\n")
        unknown = run([*command[:2], "describe", "nobody", *command[2:]])
        assert (unknown.returncode, unknown.stderr) == (1, "kohort: nobody: there is no such transactional id\n")


def test_list_shows_every_id_with_its_producer_and_state(operator: Operator) -> None:
    story, at = operator.story, (operator.topic, 0)
    empty, ongoing, ended = story.begun("-empty"), story.begun("-ongoing"), story.begun("-ended")
    ongoing.begin(at)
    ended.begin(at)
    ended.commit_it()
    wanted = [
        [f"{operator.id}-{name}", "1", str(producer.producer_id), state]
        for name, producer, state in (
            ("empty", empty, "Empty"), ("ended", ended, "CompleteCommit"), ("ongoing", ongoing, "Ongoing"),
        )
    ]  # fmt: skip
    only_mine = ("--pattern", re.escape(operator.id) + ".*")
    assert operator.rows("list", *only_mine)[1:] == wanted
    assert operator.rows("list", *only_mine, "--state", "ongoing, Empty")[1:] == [wanted[0], wanted[2]]
    assert operator.rows("list", *only_mine, "--open-for", "0s")[1:] == [wanted[2]]
    assert operator.rows("list", *only_mine, "--open-for", "1h")[1:] == []
    told = json.loads("\n".join(operator.lines("list", *only_mine, "--json")))
    assert told[0] == {
        "transactional_id": f"{operator.id}-empty", "coordinator": 1, "producer_id": empty.producer_id,
        "state": "Empty",
    }  # fmt: skip


def test_a_pattern_that_cannot_be_read_is_refused(operator: Operator) -> None:
    assert "INVALID_REGULAR_EXPRESSION" in operator.said("list", "--pattern", "(")


def test_describe_shows_what_a_transaction_has_written_and_what_readers_wait_for(operator: Operator) -> None:
    story, topic = operator.story, operator.topic
    operator.peer.append(topic, batch(4))
    producer = story.begun(timeout_ms=45_000)
    producer.begin((topic, 0), records=2)
    producer.add((topic, 2))
    operator.peer.append(topic, batch(3))
    head, _, *rows, end = operator.lines("describe", operator.id)
    assert head.startswith(
        f"{operator.id}: Ongoing, producer {producer.producer_id} in epoch 0, timeout 45 s, open for "
    )
    assert [line.split() for line in rows] == [[topic, "0", "4", "4", "9"], [topic, "2", "-", "0", "0"]]
    assert end == ""
    (told,) = json.loads("\n".join(operator.lines("describe", operator.id, "--json")))
    assert (told["state"], told["epoch"], told["timeout_ms"]) == ("Ongoing", 0, 45_000)
    assert told["open_for_ms"] >= 0
    assert told["partitions"][0] == {
        "topic": topic, "partition": 0, "first_offset": 4, "stable_offset": 4, "log_end_offset": 9,
    }  # fmt: skip
    assert any(line.startswith(f"{operator.id}: Ongoing") for line in operator.lines("describe"))
    producer.commit_it()
    assert operator.lines("describe", operator.id) == [
        f"{operator.id}: CompleteCommit, producer {producer.producer_id} in epoch 1, timeout 45 s", ""
    ]  # fmt: skip


def test_an_unknown_id_beside_a_known_one_is_told_and_is_no_success(operator: Operator) -> None:
    operator.story.begun()
    done = operator.transactions("describe", operator.id, "nobody")
    assert (done.returncode, done.stderr) == (1, "kohort: nobody: there is no such transactional id\n")
    assert done.stdout.startswith(f"{operator.id}: Empty")


def test_abort_ends_an_open_transaction_and_waits_for_its_markers(operator: Operator) -> None:
    story, at = operator.story, (operator.topic, 0)
    old, new = story.begun("-old", versions=TV0), story.begun("-new")
    for producer in (old, new):
        producer.begin(at, records=2)
    ids = (f"{operator.id}-old", f"{operator.id}-new")
    assert operator.lines("abort", *ids) == [f"aborted {name}" for name in ids]
    assert [operator.state(name) for name in ids] == ["CompleteAbort"] * 2
    assert story.read(at).responses[0].partitions[0].last_stable_offset == 6
    new.abort()  # a newer client learns it with the next request, and goes on
    new.begin(at)
    assert new.commit_it().error_code == 0


def test_what_is_not_open_is_not_aborted_and_stays_as_it_is(operator: Operator) -> None:
    story, at = operator.story, (operator.topic, 0)
    producer = story.begun()
    assert operator.said("abort", operator.id) == f"{operator.id}: it has no open transaction; it is Empty"
    producer.begin(at)
    producer.commit_it()
    assert operator.said("abort", operator.id).endswith("it is CompleteCommit")
    assert story.look_at(operator.id).producer_epoch == producer.epoch
    assert operator.said("abort", "nobody") == "nobody: there is no such transactional id"
    done = operator.transactions("abort", "nobody", "--json")
    assert json.loads(done.stdout) == [{"transaction": "nobody", "problem": "there is no such transactional id"}]


def test_a_decided_transaction_is_not_decided_anew(operator: Operator) -> None:
    operator.story.begun().get_stuck((operator.topic, 0))
    assert operator.said("abort", operator.id) == (
        f"{operator.id}: it is PrepareCommit: its markers are being written already"
    )


def test_a_hanging_transaction_is_found_and_aborted_by_its_first_offset(operator: Operator) -> None:
    story, topic = operator.story, operator.topic
    producer = story.begun(versions=TV0)
    producer.begin((topic, 1))
    producer.produce((topic, 0), 3, start_ms=YESTERDAY_MS)  # never added: nobody is going to end that
    find = ("find-hanging", "--topic", topic, "--older-than", "0s")
    (row,) = operator.rows(*find)[1:]
    assert [*row[:5], row[6]] == [topic, "0", "0", str(producer.producer_id), "0", operator.id]
    producer.commit_it()
    (told,) = json.loads("\n".join(operator.lines(*find, "--json")))
    assert (told["partition"], told["first_offset"], told["coordinator_epoch"]) == (0, 0, -1)
    none = "there are no hanging transactions"
    assert operator.said("find-hanging", "--topic", topic, "--older-than", "2d", status=0) == none
    abort = ("abort", "--topic", f"{topic}:0", "--first-offset")
    assert operator.said(*abort, "1") == f"{topic}-0 from offset 1: no open transaction begins at offset 1"
    assert operator.lines(*abort, "0") == [f"aborted {topic}-0 from offset 0"]
    assert operator.said(*find, status=0) == none
    found = story.read((topic, 0)).responses[0].partitions[0]
    assert (found.last_stable_offset, len(found.aborted_transactions)) == (4, 1)


def test_a_stuck_decision_can_be_freed_by_hand(operator: Operator) -> None:
    """A marker of a newer coordinator, which never was, made the partition refuse the true one."""
    topic = operator.topic
    producer = operator.story.begun()
    producer.get_stuck((topic, 0))
    producer_two = operator.story.begun("-two", versions=TV0)
    producer_two.produce((topic, 0))
    assert operator.lines("abort", "--topic", f"{topic}:0", "--first-offset", "2") == [
        f"aborted {topic}-0 from offset 2"
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("abort", "name transactional ids, or else --topic and --first-offset"),
        ("abort x --topic t:0 --first-offset 1", "name transactional ids, or else --topic and --first-offset"),
        ("abort --topic t:0", "--topic and --first-offset belong together"),
        ("abort --first-offset 1", "--topic and --first-offset belong together"),
        ("abort --topic t --first-offset 1", "--topic names one partition here, as in --topic orders:0"),
        ("abort --topic t:0,1 --first-offset 1", "--topic names one partition here, as in --topic orders:0"),
        ("list --state open", "argument --state: 'open' is not a state: transactions are Empty, Ongoing, "),
        ("list --open-for long", "'long' is not a duration: write 2h, 1d12h or P1DT2H"),
        ("find-hanging --older-than x", "'x' is not a duration"),
    ],
)
def test_a_wrong_command_line_ends_with_status_2(arguments: str, said: str) -> None:
    done = run([KOHORT, "transactions", *arguments.split(), "--bootstrap-server", "127.0.0.1:1"])
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr.splitlines()[0]


@pytest.mark.parametrize("action", ["find-hanging", "abort"])
def test_a_topic_or_partition_that_is_not_there_is_told(operator: Operator, action: str) -> None:
    more = ("--first-offset", "0") if action == "abort" else ()
    assert operator.said(action, "--topic", "nope:0", *more) == "there is no topic nope"
    said = operator.said(action, "--topic", f"{operator.topic}:7", *more)
    assert said == f"topic {operator.topic} has no partition 7, only 0 to 2"
