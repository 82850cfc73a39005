"""A real Apache Kafka of three nodes (KRaft), with TLS, SCRAM and ACLs on the listener that tests come in by.

The listener INTERNAL is for the brokers among themselves and for the test's own hands: whoever comes there may do
everything. Users come in by SECURE, and may do what an ACL says.
"""

from __future__ import annotations

import base64
import socket
import subprocess
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from tests.client.certificates import Authority
from tests.clients.ports import free_ports
from tests.kafka.jars import kafka_jars

START_TIMEOUT_S = 240
POLL_S = 0.1
NODES = (1, 2, 3)
PROPERTIES = """\
process.roles=broker,controller
node.id={node}
listeners=INTERNAL://127.0.0.1:{internal},SECURE://127.0.0.1:{secure},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=INTERNAL://127.0.0.1:{internal},SECURE://127.0.0.1:{secure}
listener.security.protocol.map=INTERNAL:PLAINTEXT,SECURE:SASL_SSL,CONTROLLER:PLAINTEXT
inter.broker.listener.name=INTERNAL
controller.listener.names=CONTROLLER
controller.quorum.voters={voters}
log.dirs={data}
sasl.enabled.mechanisms=SCRAM-SHA-512
listener.name.secure.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
ssl.keystore.type=PEM
ssl.keystore.location={certificate}
ssl.truststore.type=PEM
ssl.truststore.location={authority}
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
default.replication.factor=3
min.insync.replicas=2
offsets.topic.replication.factor=3
transaction.state.log.replication.factor=3
transaction.state.log.min.isr=2
share.coordinator.state.topic.replication.factor=3
share.coordinator.state.topic.min.isr=2
group.initial.rebalance.delay.ms=0
broker.session.timeout.ms=6000
"""


class SecureCluster:
    """Formats, starts and stops the three nodes. `users`: name -> password."""

    def __init__(self, folder: Path, users: Mapping[str, str], settings: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.authority = Authority(folder / "certificates")
        ports = free_ports(3 * len(NODES))
        self._internal, self._secure, controllers = (dict(zip(NODES, ports[at::3], strict=True)) for at in range(3))
        voters = ",".join(f"{node}@127.0.0.1:{port}" for node, port in controllers.items())
        certificate = self.authority.sign("broker")
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "A")
        for node in NODES:
            (folder / f"{node}").mkdir()
            text = PROPERTIES.format(
                node=node, internal=self._internal[node], secure=self._secure[node], controller=controllers[node],
                voters=voters, data=self.data(node), certificate=certificate, authority=self.authority.certificate,
            )  # fmt: skip
            text += "".join(f"{name}={value}\n" for name, value in (settings or {}).items())
            self._properties(node).write_text(text, encoding="utf-8")
        formatting = [self._format(node, cluster_id, users) for node in NODES]
        for process in formatting:
            assert process.wait(START_TIMEOUT_S) == 0, "formatting has failed"
        self.processes = {node: self._start(node) for node in NODES}
        for node in NODES:
            self._wait_until_it_answers(node)

    @property
    def internal(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self._internal.values())

    @property
    def secure(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self._secure.values())

    def data(self, node: int) -> Path:
        return self.folder / f"{node}" / "data"

    def client_properties(self, user: str, password: str) -> Path:
        """The file with which the user comes in."""
        file = self.folder / f"{user}-{password}.properties"
        file.write_text(
            "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n"
            "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required"
            f' username="{user}" password="{password}";\n'
            f"ssl.truststore.type=PEM\nssl.truststore.location={self.authority.certificate}\n"
        )
        return file

    def allow(self, user: str, *rights: tuple[str, str, str]) -> None:
        """(TOPIC, __consumer_offsets, READ), and so on; a name of * is all names."""
        admin = AdminClient({"bootstrap.servers": self.internal})
        bindings = [
            AclBinding(
                ResourceType[kind], name, ResourcePatternType.LITERAL, f"User:{user}", "*", AclOperation[operation],
                AclPermissionType.ALLOW,
            )
            for kind, name, operation in rights
        ]  # fmt: skip
        for made in admin.create_acls(bindings).values():
            made.result(60)

    # --- processes

    def kill(self, node: int) -> None:
        self.processes[node].kill()
        self.processes[node].wait()

    def start_again(self, node: int) -> None:
        self.processes[node] = self._start(node)
        self._wait_until_it_answers(node)

    def _properties(self, node: int) -> Path:
        return self.folder / f"{node}" / "server.properties"

    def _format(self, node: int, cluster_id: str, users: Mapping[str, str]) -> subprocess.Popen[bytes]:
        arguments = ["format", "-t", cluster_id, "-c", str(self._properties(node))]
        for name, password in users.items():
            arguments += ["--add-scram", f"SCRAM-SHA-512=[name={name},password={password}]"]
        command = _java("kafka.tools.StorageTool", *arguments, flags=("-XX:TieredStopAtLevel=1",))
        with (self.folder / f"{node}" / "format.txt").open("wb") as told:
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=told, stderr=told)

    def _start(self, node: int) -> subprocess.Popen[bytes]:
        command = _java("kafka.Kafka", str(self._properties(node)), flags=("-Xms256m", "-Xmx640m"))
        with self._console(node).open("ab") as console:
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=console, stderr=console)

    def _console(self, node: int) -> Path:
        return self.folder / f"{node}" / "console.txt"

    def _wait_until_it_answers(self, node: int) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while self.processes[node].poll() is None and time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", self._secure[node]), timeout=1).close()
            except OSError:
                time.sleep(POLL_S)
                continue
            return
        self.stop()
        raise AssertionError(f"Kafka did not start:\n{self._console(node).read_text(errors='replace')[-4000:]}")

    def stop(self) -> None:
        for process in self.processes.values():
            process.kill()  # the folders are thrown away: an orderly end would take a minute
        for process in self.processes.values():
            process.wait()

    def __enter__(self) -> SecureCluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _java(main: str, *arguments: str, flags: Sequence[str] = ()) -> list[str]:
    return ["java", "-XX:+UseSerialGC", *flags, "-Dfile.encoding=UTF-8", "-cp", f"{kafka_jars()}/*", main, *arguments]
