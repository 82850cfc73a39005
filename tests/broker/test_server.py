"""The server from outside: a real process, real sockets, and clients that do not behave."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from struct import pack
from threading import Thread
from urllib.parse import urlsplit

import pytest

from kohort.broker.commands.serve import file_limits
from kohort.broker.config import Config
from kohort.broker.terminal import in_plain_words
from kohort.client.client import Client
from kohort.client.errors import ClientError
from kohort.protocol.api_keys import APIS, ApiKey
from kohort.protocol.codec import request_encoder
from kohort.protocol.frames import framed
from kohort.protocol.headers import request_header
from kohort.protocol.messages.api_versions import ApiVersionsRequest
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kohort.protocol.messages.metadata import MetadataRequest
from kohort.protocol.wire import MAX_ELEMENTS_PER_REQUEST, SMALL_FRAME_BYTES, uvarint
from tests.clients.kohort import KohortProcess


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KohortProcess]:
    with KohortProcess(tmp_path_factory.mktemp("broker")) as process:
        yield process


def ask(client: Client, version: int = 3) -> int:
    return len(client.send(ApiKey.API_VERSIONS, ApiVersionsRequest("test", "1.0"), version).api_keys)


@pytest.mark.parametrize("version", range(5))
def test_every_version_of_api_versions_lists_what_is_served(broker: KohortProcess, version: int) -> None:
    with Client(broker.address) as client:
        assert ask(client, version) > 10


def test_an_unknown_version_of_api_versions_gets_kafkas_fallback_and_the_connection_stays(
    broker: KohortProcess,
) -> None:
    with Client(broker.address) as client:
        header = pack(">hhih", 18, 99, 5, 1) + b"c" + b"\0"
        client.send_raw(pack(">i", len(header)) + header)
        assert client.receive_frame() == bytes.fromhex("00000005 0023 00000001 0012 0000 0004")
        assert ask(client) > 10


def _with_header_tags(count: int, tag_bytes: int) -> bytes:
    """A Metadata request about no topics whose header has `count` tagged fields of `tag_bytes` bytes each."""
    tag = b"\x00" + uvarint(tag_bytes) + bytes(tag_bytes)
    header = request_header(ApiKey.METADATA, 12, 7, "c")[:-1] + uvarint(count) + tag * count
    return framed(header, request_encoder(ApiKey.METADATA, 12)(MetadataRequest([], False)))


def test_an_honest_large_tagged_request_is_answered_after_a_hostile_one_on_another_connection(
    broker: KohortProcess,
) -> None:
    """The element budget of a request begins anew with its header, whatever earlier requests spent."""
    with Client(broker.address) as hostile, Client(broker.address) as honest:
        hostile.send_raw(_with_header_tags(MAX_ELEMENTS_PER_REQUEST + 1, 0))
        with pytest.raises(ClientError, match="closed the connection"):
            hostile.receive_frame()
        honest.send_raw(_with_header_tags(1, 2 * SMALL_FRAME_BYTES))
        assert honest.receive_frame()[:4] == pack(">i", 7)


def test_a_header_with_many_tags_is_refused_since_it_is_read_at_once(broker: KohortProcess) -> None:
    with Client(broker.address) as some, Client(broker.address) as many:
        some.send_raw(_with_header_tags(127, 1_000))
        assert some.receive_frame()[:4] == pack(">i", 7)
        many.send_raw(_with_header_tags(128, 0))
        with pytest.raises(ClientError, match="closed the connection"):
            many.receive_frame()
    assert "more than 127 tagged fields in a request header" in broker.log_tail()


def test_a_client_name_that_is_none_is_an_invalid_request(broker: KohortProcess) -> None:
    with Client(broker.address) as client:
        answer = client.send(ApiKey.API_VERSIONS, ApiVersionsRequest("no spaces", "1"), 3)
        assert (answer.error_code, list(answer.api_keys)) == (42, [])


def _unserved_version() -> bytes:
    return request_header(ApiKey.METADATA, 99, 1, "c") + b"\0"


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (pack(">i", -1), "a frame of -1 bytes"),
        (pack(">i", 0), "a frame of 0 bytes"),
        (pack(">i", 104_857_601), "socket.request.max.bytes"),
        (pack(">i", 10) + pack(">hhih", 9999, 0, 1, -1), "asked for API 9999 version 0"),
        (
            pack(">i", len(_unserved_version())) + _unserved_version(),
            "asked for Metadata version 99: the versions 0 to 13 are served",
        ),
        (pack(">i", 8) + pack(">hhi", 3, 0, 1), "a request header of less than 10 bytes"),
        (pack(">i", 14) + pack(">hhihi", 3, 0, 1, -1, 2**31 - 1), "MetadataRequest v0"),
    ],
)
def test_a_request_that_cannot_be_read_closes_the_connection_and_leaves_one_line(
    broker: KohortProcess, frame: bytes, reason: str
) -> None:
    with Client(broker.address) as client:
        local = client._socket.getsockname()[1]
        client.send_raw(frame)
        with pytest.raises(ClientError, match="closed the connection"):
            client.receive_frame()
    lines = [line for line in broker.log.read_text().splitlines() if f":{local}" in line]
    assert len(lines) == 1
    assert reason in lines[0]


def test_pipelined_requests_are_answered_in_order(broker: KohortProcess) -> None:
    with Client(broker.address) as client:
        sent = [client.post(ApiKey.API_VERSIONS, ApiVersionsRequest("a", "1"), i % 5) for i in range(200)]
        for i, correlation_id in enumerate(sent):
            client.receive(ApiKey.API_VERSIONS, i % 5, correlation_id)


def test_what_was_answered_before_a_bad_request_is_sent_before_the_connection_closes(broker: KohortProcess) -> None:
    with Client(broker.address) as client:
        header = request_header(ApiKey.API_VERSIONS, 0, 7, "c")
        client.send_raw((pack(">i", len(header)) + header) * 5 + pack(">i", -1))
        assert [client.receive_frame()[:4] for _ in range(5)] == [pack(">i", 7)] * 5
        with pytest.raises(ClientError, match="closed the connection"):
            client.receive_frame()


def test_40000_requests_in_one_go_are_all_answered(broker: KohortProcess) -> None:
    """Far more than is gathered for one write, or than a socket holds. Who does not read: test_slow_clients.py."""
    header = request_header(ApiKey.API_VERSIONS, 0, 7, "c")
    with Client(broker.address) as client:
        sender = Thread(target=client.send_raw, args=((pack(">i", len(header)) + header) * 40_000,))
        sender.start()
        assert all(client.receive_frame()[:4] == pack(">i", 7) for _ in range(40_000))
        sender.join()


def test_a_request_in_single_bytes_is_served(broker: KohortProcess) -> None:
    with Client(broker.address) as client:
        header = request_header(ApiKey.API_VERSIONS, 0, 7, "slow")
        for byte in pack(">i", len(header)) + header:
            client.send_raw(bytes([byte]))
        assert client.receive_frame()[:4] == pack(">i", 7)


def test_bytes_after_a_body_are_ignored(broker: KohortProcess) -> None:
    with Client(broker.address) as client:
        frame = request_header(ApiKey.API_VERSIONS, 0, 7, "c") + b"more than was asked for"
        client.send_raw(pack(">i", len(frame)) + frame)
        assert client.receive_frame()[:4] == pack(">i", 7)


def test_announced_versions_are_those_of_the_table(broker: KohortProcess) -> None:
    with Client(broker.address) as client:
        for api in client.send(ApiKey.API_VERSIONS, ApiVersionsRequest("a", "1"), 4).api_keys:
            known = APIS[api.api_key]
            lowest = 0 if api.api_key == ApiKey.PRODUCE else known.min_version
            assert (api.min_version, api.max_version) == (lowest, known.max_version), known.name


def test_too_many_connections_of_one_address_are_refused(tmp_path: Path) -> None:
    with KohortProcess(tmp_path, **{"max.connections.per.ip": "2"}) as broker:
        with Client(broker.address) as one, Client(broker.address) as two:
            assert ask(one)
            assert ask(two)
            with Client(broker.address) as three, pytest.raises(ClientError):
                ask(three)
        with Client(broker.address) as later:
            assert ask(later)


def test_half_a_frame_does_not_hold_a_connection_for_ever(tmp_path: Path) -> None:
    settings = {"kohort.request.read.timeout.ms": "100"}
    with KohortProcess(tmp_path, **settings) as broker, Client(broker.address) as client:
        client.send_raw(b"\0\0")
        with pytest.raises(ClientError, match="closed"):
            client.receive_frame()


def test_a_silent_connection_is_closed(tmp_path: Path) -> None:
    with KohortProcess(tmp_path, **{"connections.max.idle.ms": "100"}) as broker, Client(broker.address) as client:
        assert ask(client)
        with pytest.raises(ClientError, match="closed"):
            client.receive_frame()


def test_topics_survive_a_clean_stop_and_a_kill(tmp_path: Path) -> None:
    for name, end in (("a", signal.SIGTERM), ("b", signal.SIGKILL), ("c", signal.SIGINT)):
        process = KohortProcess(tmp_path)
        with Client(process.address) as client:
            made = client.send(ApiKey.CREATE_TOPICS, CreateTopicsRequest([CreatableTopic(name, 3, 1)]))
            assert made.topics[0].error_code == 0
        process.process.send_signal(end)
        status = process.process.wait(30)
        assert process.process.stdout is not None
        process.process.stdout.close()
        assert status == (-signal.SIGKILL if end is signal.SIGKILL else 0)
    with KohortProcess(tmp_path) as process, Client(process.address) as client:
        topics = client.send(ApiKey.METADATA, MetadataRequest(None)).topics
        assert sorted((topic.name, len(topic.partitions)) for topic in topics) == [("a", 3), ("b", 3), ("c", 3)]


def test_a_second_broker_on_the_same_folder_is_told_so(tmp_path: Path) -> None:
    with KohortProcess(tmp_path) as process:
        done = _run(
            "serve", "--override", f"log.dirs={process.data}", "--override", "listeners=PLAINTEXT://127.0.0.1:0"
        )
        assert done.returncode == 1
        assert done.stderr.startswith("kohort: ")
        assert str(process.data) in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("host", ["127.0.0.1", ""])
def test_a_taken_port_is_told_in_one_line_with_what_to_do(tmp_path: Path, host: str) -> None:
    with socket.socket() as taken:
        taken.bind((host, 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = _run(
            "serve", "--override", f"listeners=PLAINTEXT://{host}:{port}", "--override", f"log.dirs={tmp_path}/d"
        )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"kohort: port {port} is in use")
    assert f"--override listeners=PLAINTEXT://{host}:{port + 1}" in line


def test_without_a_setting_only_this_machine_can_connect_and_the_banner_says_so(tmp_path: Path) -> None:
    listeners = Config().listeners.replace("9092", "0")
    with KohortProcess(tmp_path, listeners=listeners, kohort_http_port="0") as process:
        assert process.process.stdout is not None
        host, port = process.address.rsplit(":", 1)
        metrics = urlsplit(process.process.stdout.readline().split()[-1])
        assert host == "localhost"
        assert metrics.port is not None
        with Client(process.address) as client:
            assert ask(client)
        for each in (int(port), metrics.port):
            socket.create_connection(("127.0.0.1", each)).close()
            with pytest.raises(ConnectionRefusedError):  # an address of this machine, but not the one of localhost
                socket.create_connection(("127.0.0.2", each))


def test_the_banner_tells_where_clients_can_connect_and_what_they_are_told(tmp_path: Path) -> None:
    told = "PLAINTEXT://broker.example:9092"
    with KohortProcess(tmp_path, listeners="PLAINTEXT://:0", advertised_listeners=told) as process:
        assert re.match(r"Kohort listens on \*:\d+, tells clients to use broker\.example:9092, keeps", process.banner)


def test_a_taken_port_for_metrics_names_the_setting_of_the_metrics(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        settings = (f"log.dirs={tmp_path}/d", "listeners=PLAINTEXT://127.0.0.1:0", f"kohort.http.port={port}")
        done = _run("serve", *(word for setting in settings for word in ("--override", setting)))
    assert done.returncode == 1
    assert done.stderr.endswith(f"take another: --override kohort.http.port={port + 1}\n")


@pytest.mark.parametrize(
    ("listener", "said"),
    [
        ("PLAINTEXT://192.0.2.1:9092", "cannot listen on 192.0.2.1: this machine has no such address"),
        ("PLAINTEXT://no-host.invalid:9092", "cannot listen on no-host.invalid: the name cannot be resolved"),
    ],
)
def test_an_address_that_cannot_be_listened_on_is_told_in_one_line(tmp_path: Path, listener: str, said: str) -> None:
    done = _run("serve", "--override", f"listeners={listener}", "--override", f"log.dirs={tmp_path}/d")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert said in line
    assert "Errno" not in line


def test_a_data_folder_that_is_a_file_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = _run("serve", "--override", f"log.dirs={tmp_path}/file", "--override", "listeners=PLAINTEXT://127.0.0.1:0")
    assert (done.returncode, done.stderr) == (1, f"kohort: {tmp_path}/file: this is a file, and a folder is needed\n")


def test_a_file_of_another_user_is_told_with_what_to_do(tmp_path: Path) -> None:
    said = in_plain_words(PermissionError(errno.EACCES, "Permission denied", f"{tmp_path}/.lock"))
    what_to_do = "run this as the user who owns the file or folder, or change its owner"
    assert said == f"{tmp_path}/.lock: Permission denied: {what_to_do}"


def test_a_limit_of_open_files_that_is_too_low_is_told_in_one_line(tmp_path: Path) -> None:
    overrides = f"--override log.dirs={tmp_path}/d --override listeners=PLAINTEXT://127.0.0.1:0"
    command = f"ulimit -n 20; exec {KohortProcess.executable} serve {overrides}"
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, timeout=60)
    said = "kohort: only 20 files may be open, and Kohort needs 64: raise the limit (ulimit -Hn)\n"
    assert (done.returncode, done.stderr) == (1, said)


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["--override", "nope=1"], 2, "kohort: --override nope=1: neither Kafka nor Kohort has such a setting\n"),
        (
            ["--override", "num.partitions=0"],
            2,
            "kohort: --override num.partitions=0: must be between 1 and 2147483647\n",
        ),
        (["--override", "novalue"], 2, "kohort: --override takes key=value, not 'novalue'\n"),
        (["no-such-file.properties"], 1, "kohort: no-such-file.properties: No such file or directory\n"),
    ],
)
def test_bad_settings_end_with_one_line_and_2_if_the_command_line_is_wrong(
    arguments: list[str], status: int, said: str
) -> None:
    done = _run("serve", *arguments)
    assert (done.returncode, done.stderr) == (status, said)


def test_every_wrong_value_of_a_file_is_told_in_one_run(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=0\nnode.id=me\n")
    done = _run("serve", str(file))
    assert done.returncode == 1
    assert [line.partition(":")[2] for line in done.stderr.splitlines()] == [
        " num.partitions=0: must be between 1 and 2147483647",
        " node.id=me: must be a whole number",
    ]


def test_the_properties_and_the_environment_that_people_bring_along_do_not_stop_the_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KOHORT_JVM_CACHE", str(tmp_path))
    monkeypatch.setenv("KOHORT_PORT", "tcp://10.96.7.1:9092")
    monkeypatch.setenv("KOHORT_CFG_NUM_PARTITIONS", "4")
    file = tmp_path / "server.properties"
    file.write_bytes("broker.rack=Zürich\nzookeeper.connect localhost:2181\nconfluent.x: y\n".encode("latin-1"))
    with KohortProcess(tmp_path, str(file)) as process, Client(process.address) as client:
        client.send(ApiKey.CREATE_TOPICS, CreateTopicsRequest([CreatableTopic("t", -1, -1)]))
        answer = client.send(ApiKey.METADATA, MetadataRequest(None))
        assert [(topic.name, len(topic.partitions)) for topic in answer.topics] == [("t", 4)]
        assert answer.brokers[0].rack == "Zürich"
        for name in ("KOHORT_JVM_CACHE", "KOHORT_PORT", "zookeeper.connect", "confluent.x"):
            assert name in process.log_tail()


def test_with_a_json_log_the_banner_and_the_errors_are_json_too(tmp_path: Path) -> None:
    with KohortProcess(tmp_path, "--log-format", "json", **{"kohort.http.port": "0"}) as process:
        assert process.process.stdout is not None
        metrics = json.loads(process.process.stdout.readline())
        command = ["serve", "--log-format", "json", "--override"]
        second = json.loads(_run(*command, f"log.dirs={process.data}").stderr)
        wrong = json.loads(_run(*command, "num.partitions=0").stderr)
    assert metrics["message"] == f"live page at {metrics['page']}, metrics at {metrics['metrics']}"
    assert (second["level"], wrong["level"]) == ("error", "error")
    assert str(process.data) in second["message"]
    banner = json.loads(process.banner)
    assert banner["listeners"] == [process.address]
    assert banner["data"] == str(process.data)
    assert (banner["level"], banner["logger"]) == ("info", "kohort")


@pytest.mark.parametrize(
    ("soft", "hard", "expected"),
    [
        (1024, 4096, [4096]),
        (4096, 4096, []),
        (1024, 524_288, [524_288, 65_536, 10_240]),
        (256, -1, [1_048_576, 65_536, 10_240]),  # macOS: the hard limit is infinite, and still not all is allowed
        (65_536, -1, [1_048_576]),
        (-1, -1, []),
    ],
)
def test_as_many_files_as_the_system_allows_are_tried_from_the_highest_number_down(
    soft: int, hard: int, expected: list[int]
) -> None:
    assert file_limits(soft, hard, infinity=-1) == expected


def test_a_limit_of_open_files_that_the_kernel_refuses_does_not_stop_the_broker() -> None:
    """As on macOS, where the hard limit is infinite and the kernel refuses that many. Linux refuses them, too."""
    code = (
        "import resource, sys; from kohort.broker.cli import main;"
        "resource.getrlimit = lambda which: (256, resource.RLIM_INFINITY);"
        "sys.exit(main(['serve', '--override', 'num.partitions=0']))"
    )
    done = _run_command([sys.executable, "-c", code])
    assert (done.returncode, done.stderr) == (
        2,  # it came as far as to its settings
        "kohort: --override num.partitions=0: must be between 1 and 2147483647\n",
    )


def test_metrics_count_what_clients_do(tmp_path: Path) -> None:
    from urllib.request import urlopen

    with KohortProcess(tmp_path, **{"kohort.http.port": "0"}) as process:
        assert process.process.stdout is not None
        url = process.process.stdout.readline().split()[-1]
        with Client(process.address) as client:
            client.send(ApiKey.CREATE_TOPICS, CreateTopicsRequest([CreatableTopic("bad name", 1, 1)]))
            with urlopen(url) as page:
                text = page.read().decode()
    assert 'kohort_requests_total{api="CreateTopics"} 1' in text
    assert 'kohort_request_errors_total{api="CreateTopics"} 1' in text
    assert 'kohort_request_seconds_count{api="ApiVersions"} 1' in text
    assert "kohort_connections 1" in text


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return _run_command([str(Path(sys.executable).with_name("kohort")), *arguments])


def _run_command(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Without variables that would bring settings, or warnings, along."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KOHORT_")}
    return subprocess.run(command, capture_output=True, text=True, timeout=30, env=environment)
