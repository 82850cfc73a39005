"""A real single-node Apache Kafka (KRaft) from the Maven jars, on free ports in a folder of its own."""

from __future__ import annotations

import base64
import shutil
import socket
import subprocess
import time
import uuid
from pathlib import Path
from types import TracebackType

from kohort.client.client import Client
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.clients.ports import free_ports
from tests.kafka.jars import kafka_jars

START_TIMEOUT_S = 120
STOP_TIMEOUT_S = 60
POLL_S = 0.1
OFFSETS_PARTITIONS = 50

# What a single node needs, and nothing else: everything that is compared has Kafka's own defaults.
PROPERTIES = """\
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:{controller_port}
log.dirs={data}
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
"""

# What is different for a second broker, which leaves the controller to the first. Of two lines the later one counts.
SECOND = """\
process.roles=broker
node.id=2
listeners=PLAINTEXT://127.0.0.1:{port}
controller.quorum.voters=1@127.0.0.1:{controller_port}
"""


class KafkaServer:
    """Formats the folder, starts, waits until it answers; stops at the end of the `with` block."""

    def __init__(
        self, folder: Path, settings: dict[str, str] | None = None, *, second_of: KafkaServer | None = None
    ) -> None:
        """`second_of` makes it the second broker of that one's cluster."""
        self.folder = folder
        self.data = folder / "data"
        self.console = folder / "console.txt"
        folder.mkdir(parents=True, exist_ok=True)
        port, self._controller_port = free_ports(2)
        self._cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "A")
        self.address = f"127.0.0.1:{port}"
        text = PROPERTIES.format(port=port, controller_port=self._controller_port, data=self.data)
        if second_of is not None:
            self._cluster_id = second_of._cluster_id
            text += SECOND.format(port=port, controller_port=second_of._controller_port)
        text += "".join(f"{name}={value}\n" for name, value in (settings or {}).items())
        self._properties = folder / "server.properties"
        self._properties.write_text(text, encoding="utf-8")
        self._format()
        self.process = self._start()
        self._wait_until_it_answers()

    def _format(self) -> None:
        arguments = ["format", "-t", self._cluster_id, "-c", str(self._properties)]
        command = [*_java("-XX:TieredStopAtLevel=1"), "kafka.tools.StorageTool", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=START_TIMEOUT_S)
        assert done.returncode == 0, done.stdout + done.stderr

    def _start(self) -> subprocess.Popen[bytes]:
        with self.console.open("wb") as console:
            command = [*_java("-Xms512m", "-Xmx1g"), "kafka.Kafka", str(self._properties)]
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=console, stderr=console)

    def _wait_until_it_answers(self) -> None:
        host, port = self.address.split(":")
        deadline = time.monotonic() + START_TIMEOUT_S
        while self.process.poll() is None and time.monotonic() < deadline:
            try:
                socket.create_connection((host, int(port)), timeout=1).close()
            except OSError:
                time.sleep(POLL_S)
                continue
            return
        self.stop()
        raise AssertionError(f"Kafka did not start:\n{self.console.read_text(errors='replace')[-4000:]}")

    def take_over_offsets(self, folders: Path) -> None:
        """Starts again with the __consumer_offsets-N of others, which hold only what their .log files say.

        Kafka is to believe that it crashed: then it checks every batch and builds the indexes anew.
        """
        assert list(folders.glob("__consumer_offsets-*/*.log")), f"no logs in {folders}"
        self.make_offsets_topic()
        self.stop()
        for own in self.data.glob("__consumer_offsets-*"):
            for file in own.glob("[0-9]*"):
                file.unlink()
            for log in (folders / own.name).glob("*.log"):
                shutil.copy(log, own)
        (self.data / ".kafka_cleanshutdown").unlink()
        self.start_again()

    def make_offsets_topic(self) -> None:
        """Asking for a coordinator makes it; its folders appear a little later."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while len(list(self.data.glob("__consumer_offsets-*/*.log"))) < OFFSETS_PARTITIONS:
            assert time.monotonic() < deadline, "Kafka did not make __consumer_offsets"
            with Client(self.address) as client:
                client.send(ApiKey.FIND_COORDINATOR, FindCoordinatorRequest("", 0, ["any"]), 4)
            time.sleep(POLL_S)

    def crash(self) -> None:
        """SIGKILL, and the broker again on what it had written."""
        self.process.kill()
        self.process.wait()
        self.start_again()

    def start_again(self) -> None:
        """After a stop, or after somebody has killed the process."""
        self.process = self._start()
        self._wait_until_it_answers()

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def __enter__(self) -> KafkaServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _java(*flags: str) -> list[str]:
    return ["java", "-XX:+UseSerialGC", *flags, "-Dfile.encoding=UTF-8", "-cp", f"{kafka_jars()}/*"]
