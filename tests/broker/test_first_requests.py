"""The first request of a kind imports its handler: in steps, so that nobody else waits for all of it."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from kohort.client.client import Client
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.heartbeat import HeartbeatRequest
from kohort.protocol.messages.list_groups import ListGroupsRequest
from tests.clients.kohort import KohortProcess

MOST_MODULES = 8  # in one step: some milliseconds
LARGE_IMPORT = 15  # modules: one with more is imported in steps

COUNT_STEPS = """
import json, sys
import kohort.broker.commands.serve
from importlib import import_module
from kohort.broker.api_table import HANDLERS, IMPORTED_FIRST

def count(name):
    before = sum(each.startswith("kohort.") for each in sys.modules)
    import_module(name)
    return sum(each.startswith("kohort.") for each in sys.modules) - before

steps = {name: count(name) for module, first in IMPORTED_FIRST.items() for name in (*first, module)}
others = {name: count(name) for name in [each.partition(":")[0] for each in HANDLERS.values()]}
print(json.dumps([steps, others]))
"""


def run(program: str) -> Any:
    return json.loads(subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout)


def test_no_step_imports_many_modules() -> None:
    steps, others = run(COUNT_STEPS)
    assert {name: count for name, count in steps.items() if count > MOST_MODULES} == {}
    assert [name for name, count in steps.items() if not count] == [], "these steps are not needed"
    assert {name: count for name, count in others.items() if count > LARGE_IMPORT} == {}


def test_the_first_requests_of_several_clients_are_handled_when_everything_is_imported(tmp_path: Path) -> None:
    heartbeat = HeartbeatRequest("g", 1, "nobody", None)
    with KohortProcess(tmp_path) as broker, ExitStack() as opened:
        clients = [opened.enter_context(Client(broker.address)) for _ in range(3)]
        asked = [
            (client.post(ApiKey.HEARTBEAT, heartbeat, 4), client.post(ApiKey.LIST_GROUPS, ListGroupsRequest(), 4))
            for client in clients
        ]
        for client, (first, second) in zip(clients, asked, strict=True):
            assert client.receive(ApiKey.HEARTBEAT, 4, first).error_code == ErrorCode.UNKNOWN_MEMBER_ID
            assert client.receive(ApiKey.LIST_GROUPS, 4, second).error_code == 0
        assert clients[0].send(ApiKey.HEARTBEAT, heartbeat, 4).error_code == ErrorCode.UNKNOWN_MEMBER_ID
