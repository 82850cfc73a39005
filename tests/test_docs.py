"""What the documentation shows is what happens."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest

from kohort.broker.config import load_config
from kohort.client import ask
from kohort.client.cluster import Cluster
from kohort.coordinator.partitioner import partition_of
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.clients.kohort import KohortProcess

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
OPERATIONS = (ROOT / "docs" / "operations.md").read_text()


@pytest.mark.parametrize("delay_ms", ["0", "100"])
def test_the_story_of_the_readme_is_true_and_can_be_run_twice(tmp_path: Path, delay_ms: str) -> None:
    story = re.search(r"```python\n(.*?)```", README, re.DOTALL)
    assert story is not None
    with KohortProcess(tmp_path, **{"group.initial.rebalance.delay.ms": delay_ms}) as broker:
        code = story[1].replace("localhost:9092", broker.address)
        for run in (1, 2):
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
            assert done.returncode == 0, done.stderr
            owned = [eval(line.partition(" owns ")[2]) for line in done.stdout.splitlines()]
            assert sorted(partition for each in owned for partition in each) == list(range(6))
            with Cluster(broker.address) as client:
                assert sum(ask.committed_offsets(client, "billing").values()) == 1000 * run
        for command in re.findall(r"^    kohort ((?:groups|dump) .*)$", README, re.MULTILINE):
            words = command.replace("kohort-data", str(broker.data)).split()
            if words[0] == "groups":
                words += ["--bootstrap-server", broker.address]
            kohort = str(Path(sys.executable).with_name("kohort"))
            shown = subprocess.run([kohort, *words], capture_output=True, text=True, timeout=60)
            assert shown.returncode == 0, shown.stderr
            assert "billing" in shown.stdout, command


def test_the_setting_with_which_the_readme_makes_a_group_form_at_once_does_that() -> None:
    (assignment,) = re.findall(r"`(KOHORT_CFG_\w+=\d+) make run`", README)
    config = load_config("", dict([assignment.split("=")]))
    assert config.group_initial_rebalance_delay_ms == 0


def test_the_comparison_in_the_readme_says_what_a_commit_costs_in_both_ways_to_have_it() -> None:
    rows = re.findall(r"^\| CPU of a commit, (.*?) \|", README, re.MULTILINE)
    assert [("page cache" in row, "Kohort's default" in row) for row in rows] == [(True, False), (False, True)]
    assert load_config().kohort_offsets_sync_before_reply


def test_the_readme_dumps_the_partition_that_its_group_belongs_to() -> None:
    assert f"__consumer_offsets-{partition_of('billing', 50)}" in README


def test_the_copy_of_offsets_that_the_operations_page_keeps_can_be_brought_back(tmp_path: Path) -> None:
    commands = re.findall(r"^    (kohort groups reset-offsets billing .*)$", OPERATIONS, re.MULTILINE)
    assert ["--export" in commands[0], "--from-file" in commands[1]] == [True, True]
    with KohortProcess(tmp_path) as broker, Cluster(broker.address) as client:
        client.send(ApiKey.CREATE_TOPICS, CreateTopicsRequest([CreatableTopic("orders", 2, 1)]))
        ask.commit(client, "billing", {("orders", 0): 0, ("orders", 1): 0})
        for command in commands:
            script = f"PATH={Path(sys.executable).parent}:$PATH; " + command.replace(
                "billing ", f"billing --bootstrap-server {broker.address} ", 1
            )
            done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=60, cwd=tmp_path)
            assert done.returncode == 0, done.stderr
        assert (tmp_path / "billing.csv").read_text() == "orders,0,0\norders,1,0\n"


def test_the_operations_page_names_every_metric_and_no_other(tmp_path: Path) -> None:
    named = set(re.findall(r"`(kohort_[a-z_]+)`", OPERATIONS.partition("## Metrics")[2]))
    with KohortProcess(tmp_path, kohort_http_port="0") as broker:
        assert broker.process.stdout is not None
        with urlopen(broker.process.stdout.readline().split()[-1]) as page:
            shown = set(re.findall(r"^# TYPE (\w+) ", page.read().decode(), re.MULTILINE))
    assert named == shown


def test_every_action_of_groups_stands_on_the_operations_page() -> None:
    kohort = str(Path(sys.executable).with_name("kohort"))
    shown = subprocess.run([kohort, "groups", "--help"], capture_output=True, text=True, timeout=60).stdout
    actions = re.findall(r"^    ([a-z-]+)(?: |$)", shown, re.MULTILINE)
    assert "delete-offsets" in actions
    for action in actions:
        assert f"kohort groups {action} " in OPERATIONS


def test_every_file_that_the_documentation_links_to_is_there() -> None:
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_no_command_of_the_documentation_writes_into_a_folder_of_the_repository() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for folder in re.findall(r"^    kohort audit .*--out (\S+)", page.read_text(), re.MULTILINE):
            assert not (ROOT / folder / "__init__.py").exists(), f"{page.name} writes to {folder}/"


def test_every_target_that_the_documentation_names_is_in_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md"):
        for target in re.findall(r"`?make ([a-z]+)\b(?=`|\s+#|$)", page.read_text(), re.MULTILINE):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"{page.name} names make {target}"
