"""Recording from a cluster that loses, removes and changes things; and from Kohort."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

import pytest

from kohort.audit.run.in_a_test import check_log
from kohort.broker.record import leader
from kohort.broker.record.metrics import MetricsServer
from kohort.broker.record.recorder import OFFSETS_TOPIC, CannotRecord, Recorder
from kohort.client import ask
from kohort.client.cluster import Cluster
from kohort.client.errors import AccessDenied
from kohort.client.settings import ClientSettings
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kohort.storage.disk import RealDisk, RealFile
from tests.clients.kohort import KohortProcess
from tests.record.fake_cluster import FakeCluster

TIMEOUT_S = 60
KOHORT = str(Path(sys.executable).with_name("kohort"))


class Recording:
    """A recorder in a thread, and what it has said."""

    def __init__(self, address: str, folder: Path, *, max_rate: float | None = None) -> None:
        self.folder = folder
        self.news: list[str] = []
        settings = ClientSettings((address,))
        self.recorder = Recorder(settings, str(folder), max_rate=max_rate, tell=self.news.append)
        self.problem: BaseException | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.recorder.run()
        except BaseException as problem:
            self.problem = problem

    def wait_until(self, happened: Callable[[], bool]) -> None:
        deadline = monotonic() + TIMEOUT_S
        while not happened():
            assert self.problem is None, self.problem
            assert monotonic() < deadline, self.news
            sleep(0.01)

    def content(self, partition: int = 0) -> bytes:
        return content(self.folder, partition)

    def wait_for(self, data: bytes) -> None:
        self.wait_until(lambda: self.content() == data)

    def end(self) -> BaseException | None:
        self._thread.join(TIMEOUT_S)
        assert not self._thread.is_alive()
        return self.problem


def content(folder: Path, partition: int) -> bytes:
    return b"".join(log.read_bytes() for log in sorted((folder / f"{OFFSETS_TOPIC}-{partition}").glob("*.log")))


@contextmanager
def recording(cluster: FakeCluster, folder: Path, *, max_rate: float | None = None) -> Iterator[Recording]:
    made = Recording(cluster.address, folder, max_rate=max_rate)
    try:
        yield made
    finally:
        made.recorder.stop()
        problem = made.end()
    assert problem is None


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster() as cluster:
        yield cluster


def once(cluster: FakeCluster, folder: Path) -> None:
    Recorder(ClientSettings((cluster.address,)), str(folder)).run(once=True)


def test_what_is_there_and_what_comes_is_recorded_byte_for_byte(cluster: FakeCluster, tmp_path: Path) -> None:
    first = cluster.append(b"a", b"b") + cluster.append(b"c")
    with recording(cluster, tmp_path) as copy:
        copy.wait_for(first)
        second = cluster.append(b"d")
        copy.wait_for(first + second)
    assert copy.news == []


def test_a_recording_goes_on_where_it_stopped(cluster: FakeCluster, tmp_path: Path) -> None:
    data = cluster.append(b"a")
    once(cluster, tmp_path)
    data += cluster.append(b"b", at=9)
    once(cluster, tmp_path)
    assert content(tmp_path, 0) == data
    assert (tmp_path / "cleaner-offset-checkpoint").read_text() == f"0\n1\n{OFFSETS_TOPIC} 0 10\n"


@pytest.mark.parametrize("newest_fetch", [18, 12, 11, 4], ids=lambda version: f"Fetch {version}")
def test_what_an_unclean_election_has_lost_is_removed_from_the_recording(newest_fetch: int, tmp_path: Path) -> None:
    with FakeCluster(newest_fetch=newest_fetch) as cluster:
        kept = cluster.append(b"a") + cluster.append(b"b")
        lost = cluster.append(b"c") + cluster.append(b"d")
        with recording(cluster, tmp_path) as copy:
            copy.wait_for(kept + lost)
            cluster.unclean_election(keep=2)
            new = cluster.append(b"C")
            copy.wait_for(kept + new)
    (said,) = [news for news in copy.news if "unclean election" in news]
    assert said.startswith(f"{OFFSETS_TOPIC}-0: the last 2 offsets of the recording are not in the log of the leader")


def test_an_unclean_election_while_nobody_recorded_is_seen_at_the_next_start(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    kept = cluster.append(b"a")
    cluster.append(b"b")
    once(cluster, tmp_path)
    cluster.unclean_election(keep=1)
    new = cluster.append(b"B") + cluster.append(b"C")
    once(cluster, tmp_path)
    assert content(tmp_path, 0) == kept + new


def test_what_the_cluster_removed_before_it_was_recorded_is_a_gap_that_is_said(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    old = cluster.append(b"a")
    once(cluster, tmp_path)
    cluster.start = 5
    cluster.batches.clear()
    new = cluster.append(b"f")
    with recording(cluster, tmp_path) as copy:
        copy.wait_for(old + new)
    (said,) = copy.news
    assert said.startswith(f"{OFFSETS_TOPIC}-0: the cluster has removed offsets 1 to 4 before they were recorded")


def test_a_log_that_begins_later_is_recorded_from_there_without_a_word(cluster: FakeCluster, tmp_path: Path) -> None:
    cluster.start = 1000
    data = cluster.append(b"a")
    with recording(cluster, tmp_path) as copy:
        copy.wait_for(data)
    assert copy.news == []


def test_new_partitions_are_recorded_too(cluster: FakeCluster, tmp_path: Path) -> None:
    data = cluster.append(b"a")
    with recording(cluster, tmp_path) as copy:
        copy.wait_for(data)
        cluster.partitions = 2
        copy.recorder.look_for_leaders()
        copy.wait_until(lambda: (tmp_path / f"{OFFSETS_TOPIC}-1").is_dir())
    assert copy.news[0].startswith(f"{OFFSETS_TOPIC} has 2 partitions now, 1 before")


def test_a_topic_that_was_created_anew_is_not_mixed_with_the_old_one(cluster: FakeCluster, tmp_path: Path) -> None:
    cluster.append(b"a")
    copy = Recording(cluster.address, tmp_path)
    copy.wait_until(lambda: copy.content() != b"")
    cluster.topic_id = b"another topic id"
    copy.recorder.look_for_leaders()
    assert "was deleted and created anew" in str(copy.end())
    with pytest.raises(CannotRecord, match="is a recording of another cluster"):
        once(cluster, tmp_path)


def test_a_topic_with_fewer_partitions_is_another_topic(cluster: FakeCluster, tmp_path: Path) -> None:
    cluster.partitions = 3
    once(cluster, tmp_path)
    cluster.partitions = 2
    with pytest.raises(CannotRecord, match="has a recording of 3 partitions, and __consumer_offsets has 2"):
        once(cluster, tmp_path)


def test_a_topic_that_is_not_there_yet_is_waited_for(cluster: FakeCluster, tmp_path: Path) -> None:
    cluster.error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    with recording(cluster, tmp_path) as copy:
        copy.wait_until(lambda: bool(copy.news))
        data = cluster.append(b"a")
        cluster.error = 0
        copy.wait_for(data)
    assert "a cluster makes it for its first group; waiting for it" in copy.news[0]


def test_a_missing_right_is_told(cluster: FakeCluster, tmp_path: Path) -> None:
    cluster.error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    with pytest.raises(AccessDenied, match="the user needs READ and DESCRIBE on the topic __consumer_offsets"):
        once(cluster, tmp_path)


def test_answers_that_do_not_fit_the_question_are_told_and_asked_for_again(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    data = cluster.append(b"a")
    cluster.lies = ["metadata", "fetch"]
    with recording(cluster, tmp_path) as copy:
        copy.wait_for(data)
    assert copy.news[0] == f"{OFFSETS_TOPIC} has partitions with impossible numbers, says the cluster; trying again"
    assert "answers about partition 255, which was not asked for; looking for the leaders" in copy.news[1]
    assert [folder.name for folder in tmp_path.glob(f"{OFFSETS_TOPIC}-*")] == [f"{OFFSETS_TOPIC}-0"]


def test_a_full_disk_is_told_once_and_waited_for(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused, append = list[str](), RealFile.append

    def append_later(file: RealFile, data: bytes) -> None:
        if file.path.endswith(".log") and len(refused) < 3:
            refused.append(file.path)
            raise OSError(errno.ENOSPC, "No space left on device")
        append(file, data)

    monkeypatch.setattr(RealFile, "append", append_later)
    monkeypatch.setattr(leader, "FULL_DISK_PAUSE_S", 0.02)
    data = cluster.append(b"a")
    with recording(cluster, tmp_path) as copy:
        copy.wait_for(data)
    assert copy.news == ["the disk is full; waiting for room", "there is room on the disk again"]


def test_two_recorders_do_not_write_to_one_folder(cluster: FakeCluster, tmp_path: Path) -> None:
    with (
        recording(cluster, tmp_path),
        pytest.raises(CannotRecord, match=rf"another process \(pid {os.getpid()}\) writes to .*: stop that one"),
    ):
        once(cluster, tmp_path)


def test_a_cluster_that_throttles_for_weeks_is_asked_again_before(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leader, "MAX_THROTTLE_S", 0.05)
    cluster.throttle_ms = 2**31 - 1
    first = cluster.append(b"a")
    with recording(cluster, tmp_path) as copy:
        copy.wait_for(first)
        copy.wait_for(first + cluster.append(b"b"))


def test_with_a_limit_the_answers_are_small(cluster: FakeCluster, tmp_path: Path) -> None:
    data = b"".join(cluster.append(b"x" * 20_000) for _ in range(10))
    with recording(cluster, tmp_path, max_rate=400_000) as copy:
        copy.wait_for(data)
    assert cluster.largest_answer == 100_000


def test_the_data_folder_of_a_broker_is_not_recorded_into(cluster: FakeCluster, tmp_path: Path) -> None:
    (tmp_path / "meta.properties").touch()
    with pytest.raises(CannotRecord, match="is the data folder of a broker"):
        once(cluster, tmp_path)


def test_metrics_tell_how_far_the_recording_is(cluster: FakeCluster, tmp_path: Path) -> None:
    data = cluster.append(b"a", b"b")
    with recording(cluster, tmp_path) as copy:
        copy.wait_for(data)
        server = MetricsServer(copy.recorder, "127.0.0.1", 0)
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=TIMEOUT_S) as page:
            told = page.read().decode().splitlines()
        server.close()
    assert 'kohort_record_log_end_offset{partition="0"} 2' in told
    assert 'kohort_record_lag{partition="0"} 0' in told
    assert f"kohort_record_bytes_total {len(data)}" in told
    assert "kohort_record_leaderless_partitions 0" in told


# --- Kohort


def commit(broker: KohortProcess, count: int) -> None:
    with Cluster(broker.address) as client:
        client.send(ApiKey.CREATE_TOPICS, CreateTopicsRequest([CreatableTopic("orders", 3, 1)]))
        for number in range(count):
            ask.commit(client, f"group-{number % 7}", {("orders", number % 3): number})


def record(broker: KohortProcess, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [KOHORT, "record", "--bootstrap-server", broker.address, str(folder), "--once"]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)


def size_of(folder: Path) -> int:
    return sum(each.stat().st_size for each in folder.glob("*/*.log"))


def assert_same_logs(data: Path, folder: Path) -> None:
    names = sorted(each.name for each in folder.glob(f"{OFFSETS_TOPIC}-*"))
    assert len(names) == 50
    for name in names:
        number = int(name.rpartition("-")[2])
        assert content(folder, number) == content(data, number), name


def test_a_recording_of_kohort_has_its_bytes_and_the_audit_reads_them(tmp_path: Path) -> None:
    with KohortProcess(tmp_path) as broker:
        commit(broker, 50)
        done = record(broker, tmp_path / "rec")
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
        assert done.stderr.startswith("kohort record: 50 batches, "), done.stderr
        commit(broker, 30)
        assert record(broker, tmp_path / "rec").stderr.startswith("kohort record: 30 batches, ")
        assert_same_logs(broker.data, tmp_path / "rec")
        found, expected = (check_log(RealDisk(), str(folder)) for folder in (tmp_path / "rec", broker.data))
    assert str(found) == str(expected)
    assert "offset_rewind" in str(found)


def test_a_recorder_that_is_killed_goes_on_from_what_it_has(tmp_path: Path) -> None:
    folder = tmp_path / "rec"
    with KohortProcess(tmp_path) as broker:
        commit(broker, 40)
        command = [KOHORT, "record", "--bootstrap-server", broker.address, str(folder)]
        for ending in (signal.SIGKILL, signal.SIGTERM):
            commit(broker, 20)
            before = size_of(folder)
            process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
            deadline = monotonic() + TIMEOUT_S
            while size_of(folder) == before and monotonic() < deadline:
                sleep(0.01)
            process.send_signal(ending)
            assert process.wait(TIMEOUT_S) == (-ending if ending is signal.SIGKILL else 0)
        assert record(broker, folder).returncode == 0
        assert_same_logs(broker.data, folder)


def test_a_broker_that_restarts_is_found_again(tmp_path: Path) -> None:
    folder = tmp_path / "rec"
    with KohortProcess(tmp_path) as first:
        commit(first, 10)
        copy = Recording(first.address, folder)
        copy.wait_until(lambda: sum(part.batches for part in copy.recorder.partitions.values()) == 10)
    copy.wait_until(lambda: any("looking for the leaders" in each for each in copy.news))
    with KohortProcess(tmp_path, listeners=f"PLAINTEXT://{first.address}") as again:
        commit(again, 10)
        copy.wait_until(lambda: sum(part.batches for part in copy.recorder.partitions.values()) == 20)
        assert_same_logs(again.data, folder)
        lost = [each for each in copy.news if "looking for the leaders" in each]
        assert len(lost) == len(set(lost))  # each of them is told once, however often it was tried
    copy.recorder.stop()
    assert copy.end() is None


def test_a_cluster_that_is_not_there_is_told_in_one_line(tmp_path: Path) -> None:
    command = [KOHORT, "record", "--bootstrap-server", "127.0.0.1:1", str(tmp_path / "rec")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert (done.returncode, done.stderr) == (1, "kohort: no broker answers at 127.0.0.1:1: Connection refused\n")
