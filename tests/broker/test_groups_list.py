"""`kohort groups list`: members, lag, --sort, --watch, and colour on a terminal."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import time
from collections.abc import Iterator

import pytest

from tests.broker.test_groups_command import KOHORT, ORDERS, Operator
from tests.clients.group_broker import GroupBroker
from tests.parity.batches import batch

TIMEOUT_S = 120
ATTACK = "\x1b[2J\u202e<script>alert(1)</script>\r\n" + "x" * 30_000


@pytest.fixture(scope="module")
def operator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    with GroupBroker(tmp_path_factory.mktemp("groups"), group_initial_rebalance_delay_ms="0") as broker:
        operator = Operator(broker.address)
        operator.make_topic(ORDERS, 2)
        for partition in range(2):
            operator.peer.append(ORDERS, batch(10), partition=partition)
        operator.story.commit({(ORDERS, 0): 4, (ORDERS, 1): 9}, "behind")
        operator.story.commit({(ORDERS, 0): 10}, "there")
        yield operator
        operator.story.close()
        operator.peer.hang_up()


class Terminal:
    """The command on a terminal of its own."""

    def __init__(self, *command: str, **environment: str) -> None:
        self._ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, env={**os.environ, "TERM": "xterm", **environment}
        )
        os.close(theirs)
        self.shown = ""

    def read_until(self, text: str) -> str:
        deadline = time.monotonic() + TIMEOUT_S
        while text not in self.shown:
            assert time.monotonic() < deadline, self.shown
            self.shown += os.read(self._ours, 65_536).decode()
        return self.shown

    def end(self) -> str:
        """Everything up to the end of the command."""
        while True:
            try:
                piece = os.read(self._ours, 65_536)
            except OSError:  # on Linux this is how a terminal ends
                break
            if not piece:
                break
            self.shown += piece.decode()
        os.close(self._ours)
        self.process.wait(TIMEOUT_S)
        return self.shown


def command(operator: Operator, *more: str) -> list[str]:
    return [KOHORT, "groups", "list", "--bootstrap-server", operator.address, *more]


def test_lag_and_members_stand_beside_each_group(operator: Operator) -> None:
    told = {row["group"]: row for row in json.loads(operator.groups("list", "--json").stdout)}
    assert told["behind"] == {
        "group": "behind", "type": "classic", "protocol": None, "state": "Empty", "members": 0, "lag": 7,
    }  # fmt: skip
    assert told["there"]["lag"] == 0
    lines = operator.groups("list", "--sort", "lag").stdout.splitlines()
    assert lines[1].split() == ["behind", "classic", "-", "Empty", "0", "7"]


def test_there_is_colour_on_a_terminal_and_nowhere_else(operator: Operator) -> None:
    shown = Terminal(*command(operator)).end()
    assert "\x1b[2mEmpty" in shown
    assert "\x1b[1mGROUP" in shown
    assert "\x1b" not in Terminal(*command(operator), NO_COLOR="1").end()
    assert "\x1b" not in Terminal(*command(operator), TERM="dumb").end()
    assert "\x1b" not in operator.groups("list").stdout


def test_who_watches_sees_what_changes_until_ctrl_c(operator: Operator) -> None:
    watching = Terminal(*command(operator, "--watch", "0.1"))
    watching.read_until("behind")
    operator.story.commit({(ORDERS, 0): 1}, "newcomer")
    watching.read_until("newcomer")
    watching.process.send_signal(signal.SIGINT)
    assert watching.end().endswith("\x1b[?1049l"), "the screen that was there is back"
    assert watching.process.returncode == 0
    assert "Traceback" not in watching.shown


def test_a_program_that_watches_gets_a_line_for_each_look(operator: Operator) -> None:
    watching = subprocess.Popen(command(operator, "--watch", "0.1", "--json"), stdout=subprocess.PIPE, text=True)
    assert watching.stdout is not None
    looks = [json.loads(watching.stdout.readline()) for _ in range(2)]
    watching.send_signal(signal.SIGINT)
    watching.communicate(timeout=TIMEOUT_S)
    assert [{row["group"] for row in look} >= {"behind", "there"} for look in looks] == [True, True]
    wrong = operator.wrong("list", "--watch", "0")
    assert wrong == "argument --watch: '0' is no number of seconds from 0.1 on"


def test_names_that_attack_are_written_out(operator: Operator) -> None:
    operator.story.commit({(ORDERS, 0): 1}, ATTACK)
    try:
        for shown in (
            operator.groups("list").stdout,
            operator.groups("describe").stdout,
            Terminal(*command(operator), NO_COLOR="1").end().replace("\r\n", "\n"),
        ):
            assert not [char for char in shown if char != "\n" and not char.isprintable()]
            assert "\\x1b[2J\\u202e<script>" in shown
            assert max(len(line) for line in shown.splitlines() if "<script>" not in line) < 400
    finally:
        operator.groups("delete", ATTACK)
