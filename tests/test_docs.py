"""What the documentation shows is what happens."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from coordinator.partitioner import partition_of
from tests.clients.kohort import KohortProcess

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def test_the_story_of_the_readme_is_true(tmp_path: Path) -> None:
    story = re.search(r"```python\n(.*?)```", README, re.DOTALL)
    assert story is not None
    with KohortProcess(tmp_path, **{"group.initial.rebalance.delay.ms": "100"}) as broker:
        code = story[1].replace("localhost:9092", broker.address)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        owned = [eval(line.partition(" owns ")[2]) for line in done.stdout.splitlines()]
        assert sorted(partition for each in owned for partition in each) == list(range(6))
        for command in re.findall(r"^    kohort ((?:groups|dump) .*)$", README, re.MULTILINE):
            words = command.replace("kohort-data", str(broker.data)).split()
            if words[0] == "groups":
                words += ["--bootstrap-server", broker.address]
            kohort = str(Path(sys.executable).with_name("kohort"))
            shown = subprocess.run([kohort, *words], capture_output=True, text=True, timeout=60)
            assert shown.returncode == 0, shown.stderr
            assert "billing" in shown.stdout, command


def test_the_readme_dumps_the_partition_that_its_group_belongs_to() -> None:
    assert f"__consumer_offsets-{partition_of('billing', 50)}" in README


def test_every_file_that_the_documentation_links_to_is_there() -> None:
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_target_that_the_documentation_names_is_in_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md"):
        for target in re.findall(r"`?make ([a-z]+)\b(?=`|\s+#|$)", page.read_text(), re.MULTILINE):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"{page.name} names make {target}"
