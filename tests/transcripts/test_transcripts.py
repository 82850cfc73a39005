"""Every scene is played and must go as written. `make rewrite` writes anew what was said."""

from pathlib import Path

import pytest

from tests.transcripts.scene import played, transcripts


@pytest.mark.parametrize("path", transcripts(), ids=lambda path: path.stem)
def test_the_scene_goes_as_written(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert played(text) == text, "if this is what should happen: make rewrite"


def test_there_is_a_scene_for_each_thing_that_happens_to_a_group() -> None:
    names = {path.stem for path in transcripts()}
    assert names >= {"member_joins", "member_leaves", "member_crashes", "commit_during_rebalance"}
