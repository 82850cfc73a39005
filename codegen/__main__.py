"""`make generate`: writes protocol/messages anew."""

from __future__ import annotations

from pathlib import Path

from codegen.module import modules


def main() -> None:
    folder = Path(__file__).parent.parent / "protocol" / "messages"
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.py"):
        old.unlink()
    for name, text in modules():
        (folder / name).write_text(text)


main()
