"""`kohort groups` as an operator uses it: on a running broker, with good, bad and strange arguments."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from kohort.client import ask, group_view
from kohort.client.client import Client
from kohort.client.cluster import Cluster, TopicPartition
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kohort.protocol.messages.metadata import MetadataRequest
from tests.clients.group_broker import GroupBroker
from tests.group_requests import subscription
from tests.kafka.members_848 import NewMember
from tests.parity.batches import batch
from tests.parity.peer import Peer
from tests.parity.story import Story

KOHORT = str(Path(sys.executable).with_name("kohort"))
ORDERS, OTHER = "orders", "other"
END = 10
COMMITTED = {(ORDERS, 0): 4, (ORDERS, 1): 2, (OTHER, 0): 1}
Done = subprocess.CompletedProcess[str]


class Operator:
    """Types commands, and makes the groups that they are about."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.peer = Peer("broker", address)
        self.peer.begin("groups", 9)
        self.story = Story(self.peer, ApiKey.OFFSET_COMMIT)

    def make_topic(self, name: str, partitions: int) -> None:
        self.peer.quietly(ApiKey.CREATE_TOPICS, CreateTopicsRequest([CreatableTopic(name, partitions, 1)], 10_000), 7)

    def groups(self, *arguments: str, **environment: str) -> Done:
        command = [KOHORT, "groups", *arguments, "--bootstrap-server", self.address]
        return run(command, **environment)

    def offsets(self, group: str) -> dict[tuple[str, int], int]:
        with Cluster(self.address) as client:
            return ask.committed_offsets(client, group)

    def refused(self, *arguments: str) -> str:
        """The one line that it says, and that it changed nothing."""
        done = self.groups(*arguments)
        assert (done.returncode, done.stdout) == (1, ""), done
        (line,) = done.stderr.splitlines()
        return line.removeprefix("kohort: ")

    def wrong(self, *arguments: str) -> str:
        """What it says about a command line that is wrong."""
        done = self.groups(*arguments)
        assert (done.returncode, done.stdout) == (2, ""), done
        return done.stderr.splitlines()[0].partition(": ")[2]


def run(command: list[str], **environment: str) -> Done:
    return subprocess.run(
        command, capture_output=True, text=True, encoding="utf-8", timeout=120, env={**os.environ, **environment}
    )


@pytest.fixture(scope="module")
def operator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    with GroupBroker(tmp_path_factory.mktemp("groups"), group_initial_rebalance_delay_ms="0") as broker:
        operator = Operator(broker.address)
        operator.make_topic(ORDERS, 3)
        operator.make_topic(OTHER, 1)
        for partition in range(2):
            operator.peer.append(ORDERS, batch(END), partition=partition)
        operator.peer.append(OTHER, batch(3))
        yield operator
        operator.story.close()
        operator.peer.hang_up()


@pytest.fixture
def empty(operator: Operator) -> str:
    """A group without members, with the same offsets for each test."""
    operator.groups("delete", "empty")
    operator.story.commit(COMMITTED, "empty")
    return "empty"


# --- reset-offsets from a file


def test_a_file_with_the_offsets_of_several_groups_gives_each_group_its_own(
    operator: Operator, empty: str, tmp_path: Path
) -> None:
    file = tmp_path / "groups.csv"
    file.write_text(f"{empty},orders,0,3\nanother,orders,0,7\nanother,orders,1,8\n")
    assert operator.groups("reset-offsets", empty, "--from-file", str(file), "--execute").returncode == 0
    assert operator.offsets(empty) == COMMITTED | {(ORDERS, 0): 3}


def test_what_was_exported_can_be_imported_again(operator: Operator, empty: str, tmp_path: Path) -> None:
    exported = operator.groups("reset-offsets", empty, "--to-current", "--export")
    assert exported.stdout == "orders,0,4\norders,1,2\nother,0,1\n"
    file = tmp_path / "offsets.csv"
    file.write_text(exported.stdout)
    operator.groups("reset-offsets", empty, "--to-latest", "--execute")
    assert operator.offsets(empty) == {(ORDERS, 0): END, (ORDERS, 1): END, (OTHER, 0): 3}
    operator.groups("reset-offsets", empty, "--from-file", str(file), "--execute")
    assert operator.offsets(empty) == COMMITTED


def test_an_export_shows_offsets_as_they_are_even_beyond_the_end(operator: Operator) -> None:
    operator.story.commit({(ORDERS, 0): 400}, "beyond")
    assert operator.groups("reset-offsets", "beyond", "--to-current", "--export").stdout == "orders,0,400\n"


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", " has no offsets for group empty"),
        (b"another,orders,0,1\n", " has no offsets for group empty"),
        (b"orders,0\n", ", line 1: must be topic,partition,offset"),
        (b"orders,0,1\n\norders,zero,1\n", ", line 3: must be topic,partition,offset"),
        (b"one,two,orders,0,1\n", ", line 1: must be topic,partition,offset"),
        (b"orders,0,1\x00\n", ", line 1: must be topic,partition,offset"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_with_the_line(
    operator: Operator, empty: str, tmp_path: Path, content: bytes, complaint: str
) -> None:
    file = tmp_path / "offsets.csv"
    file.write_bytes(content)
    assert operator.refused("reset-offsets", empty, "--from-file", str(file), "--execute") == f"{file}{complaint}"


def test_a_file_from_a_spreadsheet_is_read(operator: Operator, empty: str, tmp_path: Path) -> None:
    file = tmp_path / "offsets.csv"
    file.write_bytes(b"\xef\xbb\xbforders,0,3\r\n")
    operator.groups("reset-offsets", empty, "--from-file", str(file), "--execute")
    assert operator.offsets(empty) == COMMITTED | {(ORDERS, 0): 3}


def test_a_file_and_topics_together_are_refused(operator: Operator, empty: str, tmp_path: Path) -> None:
    file = tmp_path / "offsets.csv"
    file.write_text("orders,0,3\n")
    said = operator.wrong("reset-offsets", empty, "--from-file", str(file), "--topic", "orders:1", "--execute")
    assert said == "--from-file names the partitions itself: leave --topic and --all-topics away"


# --- reset-offsets to a time


@pytest.mark.parametrize(
    "option",
    [
        ["--to-datetime", "1969-12-31T23:59:59.999"],
        ["--to-datetime", "0001-01-01T00:00:00.000"],
        ["--by-duration", "P100000D"],
        ["--by-duration", f"P{'9' * 400}D"],
    ],
)
def test_a_time_before_all_times_is_the_first_record_and_not_the_last(
    operator: Operator, empty: str, option: list[str]
) -> None:
    assert operator.groups("reset-offsets", empty, "--topic", "orders:0", *option, "--execute").returncode == 0
    assert operator.offsets(empty) == COMMITTED | {(ORDERS, 0): 0}


@pytest.mark.parametrize("duration", ["", "P1W", "P1D2H", "P-1D", "soon"])
def test_a_duration_that_is_none_is_refused(operator: Operator, empty: str, duration: str) -> None:
    said = operator.wrong("reset-offsets", empty, f"--by-duration={duration}", "--execute")
    assert said == f"argument --by-duration: {duration!r} is not a duration: write 2h, 1d12h or P1DT2H"


@pytest.mark.parametrize(("duration", "offset"), [("30m", END), ("PT30M", END), ("1d2h", 0), ("P1DT2H", 0)])
def test_a_duration_goes_back_from_now_in_the_short_form_and_in_that_of_iso_8601(
    operator: Operator, empty: str, duration: str, offset: int
) -> None:
    operator.groups("reset-offsets", empty, "--topic", "orders:0", "--by-duration", duration, "--execute")
    assert operator.offsets(empty) == COMMITTED | {(ORDERS, 0): offset}


# --- reset-offsets of partitions


@pytest.mark.parametrize(
    ("topic", "complaint"),
    [
        ("orders:9", "topic orders has no partition 9, only 0 to 2"),
        ("orders:-1", "topic orders has no partition -1, only 0 to 2"),
        ("orders:99999999999", "topic orders has no partition 99999999999, only 0 to 2"),
        ("missing", "there is no topic missing"),
    ],
)
def test_partitions_that_are_not_there_are_refused(operator: Operator, empty: str, topic: str, complaint: str) -> None:
    assert operator.refused("reset-offsets", empty, "--topic", topic, "--to-earliest", "--execute") == complaint


def test_partitions_that_are_no_numbers_are_a_wrong_command_line(operator: Operator, empty: str) -> None:
    said = operator.wrong("reset-offsets", empty, "--topic", "orders:0,,1", "--to-earliest", "--execute")
    assert said == "argument --topic: 'orders:0,,1': partitions are numbers with commas, as in orders:0,1"


def test_a_partition_may_be_named_twice(operator: Operator, empty: str) -> None:
    arguments = ["--topic", "orders:1,1", "--topic", "orders", "--to-earliest", "--execute"]
    assert operator.groups("reset-offsets", empty, *arguments).returncode == 0
    assert operator.offsets(empty) == COMMITTED | {(ORDERS, partition): 0 for partition in range(3)}


def test_one_topic_and_all_topics_exclude_each_other(operator: Operator, empty: str) -> None:
    done = operator.groups("reset-offsets", empty, "--topic", "other", "--all-topics", "--to-latest", "--execute")
    assert done.returncode == 2
    assert operator.offsets(empty) == COMMITTED


def test_an_offset_that_the_partition_does_not_have_is_replaced_and_that_is_said(
    operator: Operator, empty: str
) -> None:
    done = operator.groups("reset-offsets", empty, "--topic", "orders:0", "--to-offset", "1000", "--execute")
    assert done.stderr == "kohort: orders-0 has the offsets 0 to 10: 10 instead of 1000\n"
    assert operator.offsets(empty) == COMMITTED | {(ORDERS, 0): END}


def test_without_execute_nothing_changes(operator: Operator, empty: str) -> None:
    for option in ([], ["--dry-run"]):
        done = operator.groups("reset-offsets", empty, "--to-earliest", *option)
        assert done.returncode == 0
        assert done.stderr == "kohort: nothing is changed yet; --execute does it\n"
    assert operator.offsets(empty) == COMMITTED


def test_a_group_with_members_keeps_its_offsets(operator: Operator) -> None:
    (member,) = operator.story.stable(group="busy", protocols=(("range", subscription(ORDERS)),))
    member.commit({(ORDERS, 0): 4, (OTHER, 0): 1})
    assert operator.refused("reset-offsets", "busy", "--to-earliest") == "group busy is Stable: stop its members first"
    assert operator.refused("delete", "busy") == "busy: it has members; stop them first"
    said = operator.refused("delete-offsets", "busy", "--topic", "orders:0")
    assert said == "orders-0: the group consumes this topic; stop its members first"
    assert operator.groups("delete-offsets", "busy", "--topic", OTHER).returncode == 0
    assert operator.offsets("busy") == {(ORDERS, 0): 4}
    member.leave()


# --- describe


def test_groups_and_members_are_shown_under_the_names_that_kafka_gives_them(operator: Operator) -> None:
    (member,) = operator.story.stable(group="shown", protocols=(("range", subscription(ORDERS)),))
    member.commit({(ORDERS, 0): 4})
    title, heads, row, _ = operator.groups("describe", "shown").stdout.split("\n", 3)
    assert title == "group shown: Stable, 1 member, assignor range"
    heads = " ".join(heads.split())
    assert heads == "TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID"
    assert row.split()[:5] == [ORDERS, "0", "4", "10", "6"]
    members = operator.groups("describe", "shown", "--members").stdout.splitlines()
    assert members[1].split()[0] == "CONSUMER-ID"
    assert members[2].split()[0] == member.id
    member.leave()


def test_members_of_a_consumer_group_are_shown_with_what_they_must_revoke(operator: Operator) -> None:
    with Client(operator.address) as client:
        topic_ids = {
            topic.name: bytes(topic.topic_id) for topic in client.send(ApiKey.METADATA, MetadataRequest(None)).topics
        }
    anna, ben = (NewMember(operator.address, topic_ids, "newer", member_id) for member_id in ("anna", "ben"))
    try:
        anna.join(ORDERS)
        ben.join(ORDERS)
        while anna.epoch == ben.epoch:  # the next target is computed a second after the last one
            ben.beat()
        title, heads, first, second, _ = operator.groups("describe", "newer", "--members").stdout.split("\n", 4)
        assert title == "consumer group newer: Reconciling, 2 members, assignor uniform, epoch 3, target of epoch 3"
        assert heads.split()[4:] == ["PROTOCOL", "EPOCH", "STATE", "#PARTITIONS", "ASSIGNMENT", "TO-REVOKE", "TO-COME"]
        assert first.split()[4:] == ["consumer", "2", "Revoking", "3", "orders(0,1,2)", "orders(2)", "-"]
        assert second.split()[4:] == ["consumer", "3", "Waiting", "0", "-", "-", "orders(2)"]
        (shown,) = json.loads(operator.groups("describe", "newer", "--json").stdout)
        assert [row["member_id"] for row in shown["partitions"]] == ["anna"] * 3
        assert operator.refused("delete", "newer") == "newer: it has members; stop them first"
    finally:
        for member in (anna, ben):
            member.leave()
            member.client.close()
    assert operator.groups("delete", "newer").stdout == "deleted newer\n"


@pytest.mark.parametrize(
    ("epoch", "to_revoke", "to_come", "state"),
    [
        (7, [], [], "Stable"),
        (6, [], [], "Behind"),
        (6, [("t", 0)], [], "Revoking"),
        (6, [("t", 0)], [("t", 1)], "Revoking"),
        (7, [], [("t", 1)], "Waiting"),
        (-2, [], [("t", 1)], "Away"),
    ],
)
def test_the_state_of_a_member_follows_from_what_it_has_and_shall_have(
    epoch: int, to_revoke: list[TopicPartition], to_come: list[TopicPartition], state: str
) -> None:
    assert group_view.state_of(epoch, 7, to_revoke, to_come) == state


# --- delete-offsets


def test_offsets_of_a_topic_can_be_deleted(operator: Operator, empty: str) -> None:
    done = operator.groups("delete-offsets", empty, "--topic", "orders:1", "--topic", OTHER)
    assert [line.split() for line in done.stdout.splitlines()[1:]] == [[ORDERS, "1"], [OTHER, "0"]]
    assert operator.offsets(empty) == {(ORDERS, 0): 4}
    shown = json.loads(operator.groups("delete-offsets", empty, "--topic", "orders:0", "--json").stdout)
    assert shown == [{"topic": ORDERS, "partition": 0, "error": "NONE"}]


def test_offsets_of_what_is_not_there_cannot_be_deleted(operator: Operator, empty: str) -> None:
    assert operator.refused("delete-offsets", "nobody", "--topic", ORDERS) == "group nobody: there is no such group"
    assert operator.refused("delete-offsets", empty, "--topic", "missing") == "there is no topic missing"


# --- list


def test_groups_are_listed_by_states_with_commas_in_any_case(operator: Operator, empty: str) -> None:
    for states in (["--state", "Empty,Stable"], ["--state", "empty"], ["--state", "Stable", "--state", "EMPTY"]):
        assert empty in operator.groups("list", *states).stdout
    assert empty not in operator.groups("list", "--state", "stable").stdout


def test_a_state_that_no_group_can_have_is_refused(operator: Operator) -> None:
    said = operator.wrong("list", "--state", "Emtpy")
    assert said.startswith("argument --state: 'Emtpy' is not a state: groups are Assigning, ")


# --- what is printed


def test_names_that_would_steer_the_terminal_are_written_out(operator: Operator) -> None:
    for name in ("two\nlines", "\x1b[31mred", "right\u202eleft"):
        operator.story.commit({(ORDERS, 0): 1}, name)
    printed = operator.groups("list").stdout + operator.groups("describe").stdout
    assert all(line.isprintable() for line in printed.splitlines())
    assert "two\\nlines " in printed
    assert "\\x1b[31mred " in printed
    assert "right\\u202eleft" in printed
    assert '"two\\nlines"' in operator.groups("list", "--json").stdout


def test_columns_stay_in_line_below_wide_letters(operator: Operator) -> None:
    for name in ("東京の注文", "plain-name"):
        operator.story.commit({(ORDERS, 0): 1}, name)
    lines = {line.split()[0]: line for line in operator.groups("list").stdout.splitlines()}
    wide = lines["東京の注文"]
    assert wide.index("classic") + len("東京の注文") == lines["plain-name"].index("classic")


def test_letters_that_the_terminal_does_not_have_are_written_out(operator: Operator) -> None:
    operator.story.commit({(ORDERS, 0): 1}, "grüße")
    done = operator.groups("list", PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert "gr\\xfc\\xdfe" in done.stdout


def test_a_reader_that_goes_away_and_a_full_disk_leave_no_traceback(operator: Operator) -> None:
    command = [KOHORT, "groups", "list", "--bootstrap-server", operator.address]
    read, write = os.pipe()
    os.close(read)
    gone = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, timeout=120)
    os.close(write)
    assert (gone.returncode, gone.stderr) == (0, "")
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (1, "kohort: No space left on device\n")


def test_a_name_that_is_no_text_is_refused(operator: Operator) -> None:
    command = [os.fsencode(KOHORT), b"groups", b"describe", b"\xff", b"--bootstrap-server", operator.address.encode()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (2, "kohort: a name that is not UTF-8 cannot be one of Kafka's\n")


# --- brokers that are not there, not ready, or none


@pytest.mark.parametrize("address", ["", "localhost", "localhost:", ":9092", "localhost:99999", "localhost:-1"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    done = run([KOHORT, "groups", "list", f"--bootstrap-server={address}"])
    assert done.returncode == 2
    assert done.stderr.splitlines()[0].endswith(f"argument --bootstrap-server: {address!r} is not HOST:PORT")


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0\0\0\2ab", b"\xff\xff\xff\xff"])
def test_a_server_that_is_no_broker_is_told_apart(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        answering = threading.Thread(target=answer_once, args=(server, answer))
        answering.start()
        done = run([KOHORT, "groups", "list", "--bootstrap-server", address])
        answering.join()
    assert done.returncode == 1
    assert done.stderr.startswith(f"kohort: {address} answers with what is not Kafka's protocol")
    assert len(done.stderr.splitlines()) == 1


def answer_once(server: socket.socket, answer: bytes) -> None:
    connection, _ = server.accept()
    with connection:
        connection.recv(1 << 16)
        connection.sendall(answer)
        with suppress(ConnectionResetError):  # the client hangs up, and need not have read everything
            connection.recv(1 << 16)


def test_a_broker_without_groups_says_so(tmp_path: Path) -> None:
    with GroupBroker(tmp_path) as broker:
        operator = Operator(broker.address)
        described, listed = operator.groups("describe"), operator.groups("list")
        as_json = operator.groups("describe", "--json")
    assert (described.returncode, described.stdout, described.stderr) == (0, "", "kohort: there are no groups\n")
    assert listed.stdout.split() == ["GROUP", "TYPE", "PROTOCOL", "STATE", "#MEMBERS", "LAG"]
    assert json.loads(as_json.stdout) == []


def test_questions_wait_for_a_broker_that_is_still_loading_its_groups(tmp_path: Path) -> None:
    partitions = 1000
    with GroupBroker(tmp_path) as broker:
        operator = Operator(broker.address)
        operator.make_topic("wide", partitions)
        for offset in range(60):  # more than is loaded before the first client may connect
            operator.story.commit({("wide", partition): offset for partition in range(partitions)}, "large")
        operator.story.close()
        broker.restart()
        with Cluster(broker.address) as client:
            assert [group.group_id for group in ask.list_groups(client)] == ["large"]
        broker.restart()
        with Cluster(broker.address) as client:
            described, group_type = ask.describe(client, "large")
            offsets = ask.committed_offsets(client, "large")
    assert (described.group_state, group_type) == ("Empty", "classic")
    assert offsets == {("wide", partition): 59 for partition in range(partitions)}


def test_json_is_for_machines_and_has_null_where_people_see_a_dash(operator: Operator, empty: str) -> None:
    shown = json.loads(operator.groups("reset-offsets", empty, "--topic", "orders:2", "--to-latest", "--json").stdout)
    assert shown == [{"group": empty, "topic": ORDERS, "partition": 2, "current_offset": None, "new_offset": 0}]
