"""Rebalances of a streams group (KIP-1071), as a real Kafka 4.3.1 left them: two instances with two threads each come,
one is killed, another one comes (tests/kafka/make_streams_groups.py)."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from kohort.broker.cli import main
from kohort.history import cause as codes
from kohort.history.explain import Explanation
from kohort.history.text import text_of
from tests.why.staged import explanations

ARCHIVE = Path(__file__).parent.parent / "data" / "streams_groups_4.3.1.tar.gz"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("streams")
    with tarfile.open(ARCHIVE) as packed:
        packed.extractall(folder, filter="data")
    return folder / "streams_groups_4.3.1"


def people(explanation: Explanation) -> set[str]:
    return {member.client_id.partition("-")[0] for member in explanation.cause.who}


def test_who_came_and_who_fell_silent_is_told(data: Path) -> None:
    found = explanations(data, "word-count")
    story = [(each.cause.code, *people(each)) for each in found]
    assert story[0] == (codes.FIRST, "anna")
    assert set(story[1:-1]) >= {(codes.JOINED, "bert"), (codes.JOINED, "carl")}
    gone = [each for each in found if each.cause.code == codes.SILENT]
    assert {name for each in gone for name in people(each)} == {"anna"}
    assert any("group.streams.session.timeout.ms" in advice for each in gone for advice in each.advice)
    assert len(found[-1].rebalance.members) == 4
    assert "-> 4 members, 8 tasks)" in text_of(found[-1])


def test_tasks_move_and_stand_still(data: Path) -> None:
    text = "\n".join(map(text_of, explanations(data, "word-count")))
    assert "tasks moved" in text
    assert "unowned  subtopology 1 task" in text
    assert "instead" not in text  # other ways of rebalancing have no tasks


@pytest.mark.parametrize("group", ["ended", "deleted"])
def test_members_that_left_are_said_to_have_left(data: Path, group: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", group, str(data)]) == 0
    said = capsys.readouterr().out
    assert "streams group; 2 -> 0 members" in said
    assert " left. (inferred)" in said
