"""The sample of `make audit`."""

from __future__ import annotations

from pathlib import Path

from kohort.audit.sample.__main__ import clear


def test_only_what_a_sample_has_left_is_removed(tmp_path: Path) -> None:
    for name in ("data", "tables", "photos"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("some")
    clear(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["photos"]
    clear(tmp_path / "nowhere")
