"""protocol/messages is what the generator makes of the schemas today."""

from __future__ import annotations

from pathlib import Path

import kohort.protocol.messages
from codegen.module import modules

FOLDER = Path(kohort.protocol.messages.__file__).parent


def test_generating_again_gives_exactly_what_is_committed() -> None:
    made = dict(modules())
    there = {path.name: path.read_text() for path in FOLDER.glob("*.py")}
    assert made.keys() == there.keys()
    changed = [name for name in made if made[name] != there[name]]
    assert changed == [], "run `make generate`"
