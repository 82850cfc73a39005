"""Kohort with ids that somebody else has chosen: those that Kafka made for the same topics and members.

Ids decide more than one thinks: the order of Java's maps, and with it who gets which partitions. A story in which
brokers make ids can only be compared if Kohort makes the same ones. Kafka is asked first, its choice goes into a file,
and this program, which is `kohort` otherwise, takes it from there.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from kohort.broker import cli
from kohort.broker.topics import catalog
from kohort.coordinator import group_runtime
from kohort.coordinator.shard_state import ShardState
from tests.clients.kohort import KohortProcess


class ChosenIds:
    """The file, as the one who chooses sees it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._chosen: dict[str, str] = {}
        self.choose()

    def choose(self, **ids: str) -> None:
        """The ids that are made next: `member`, or `topic` in hexadecimal. Empty: Kohort makes its own again."""
        self._chosen |= ids
        fresh = self._path.with_suffix(".new")
        fresh.write_text(json.dumps(self._chosen), encoding="utf-8")
        fresh.replace(self._path)


class KohortWithChosenIds(KohortProcess):
    def __init__(self, folder: Path, settings: dict[str, str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "ids.json"
        self.ids = ChosenIds(path)
        self.executable = folder / "kohort"
        self.executable.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tests.parity.chosen_ids "{path}" "$@"\n')
        self.executable.chmod(0o755)
        super().__init__(folder, node_id="1", **{name.replace(".", "_"): value for name, value in settings.items()})


class _ShardState(ShardState):
    """Makes the members' ids."""

    __slots__ = ()
    path: Path

    def new_member_id(self, prefix: str) -> str:
        return _chosen(self.path).get("member") or super().new_member_id(prefix)

    def new_uuid(self) -> str:
        return _chosen(self.path).get("member") or super().new_uuid()


def _chosen(path: Path) -> dict[str, str]:
    return dict(json.loads(path.read_text(encoding="utf-8")))


def _main(path: Path, arguments: list[str]) -> int:
    make_topic_id, used = catalog.new_topic_id, set()

    def topic_id() -> bytes:
        """An id is chosen for one topic; the broker's own topics get random ones."""
        found = _chosen(path).get("topic")
        if found is None or found in used:
            return make_topic_id()
        used.add(found)
        return bytes.fromhex(found)

    _ShardState.path = path
    group_runtime.ShardState = _ShardState  # type: ignore[attr-defined]
    catalog.new_topic_id = topic_id
    return cli.main(arguments)


if __name__ == "__main__":
    raise SystemExit(_main(Path(sys.argv[1]), sys.argv[2:]))
