"""`kohort serve`, started by a program, which has to learn where it can connect, and may die."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from pathlib import Path

import pytest

from kohort.client.client import Client
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.api_versions import ApiVersionsRequest
from tests.clients.kohort import STOP_TIMEOUT_S, KohortProcess


def start(folder: Path, *settings: str) -> subprocess.Popen[str]:
    command = [str(KohortProcess.executable), "serve", "--print-json", "--stop-with-stdin", "--log-level", "warning"]
    for setting in (f"log.dirs={folder}", "listeners=PLAINTEXT://127.0.0.1:0", *settings):
        command += ["--override", setting]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2"])
def test_one_line_of_json_tells_the_addresses_and_the_broker_stops_when_its_input_ends(
    tmp_path: Path, host: str
) -> None:
    with start(tmp_path, "kohort.http.port=0", f"kohort.http.host={host}") as process:
        assert process.stdout is not None
        assert process.stdin is not None
        told = json.loads(process.stdout.readline())
        assert set(told) == {"bootstrap_servers", "http", "pid"}
        assert told["http"].startswith(f"http://{host}:")
        assert urllib.request.urlopen(told["http"] + "/metrics", timeout=10).status == 200
        with Client(told["bootstrap_servers"]) as client:
            assert client.send(ApiKey.API_VERSIONS, ApiVersionsRequest("kohort", "1")).error_code == 0
        process.stdin.close()
        assert process.wait(STOP_TIMEOUT_S) == 0
        assert process.stdout.read() == ""


def test_without_an_http_port_its_address_is_null(tmp_path: Path) -> None:
    with start(tmp_path) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["http"] is None
        process.terminate()
        assert process.wait(STOP_TIMEOUT_S) == 0
