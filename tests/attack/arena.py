"""A broker and a bystander beside it, for one attack after the other; both are started anew when that is needed."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from tests.attack.attacker import STUCK, Attack, Figure, attack
from tests.attack.bystander import Bystander
from tests.attack.target import Target, start_kohort, topic_id


class Arena:
    """With `peer`, a running broker that is not ours, nothing is started anew."""

    def __init__(self, folder: Path, prepared: Path, peer: Target | None = None) -> None:
        self._folder = folder
        self._prepared = prepared
        self._peer = peer
        self._stack = ExitStack()
        self._target: Target | None = None

    def __enter__(self) -> Arena:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.restart()

    def attack(self, each: Attack) -> Figure:
        if self._target is None:
            self._start()
        assert self._target is not None
        figure = attack(self._target, self._bystander, each, self._topic_id)
        if figure.result == STUCK:
            if self._target.owned is not None:
                self._target.owned.process.kill()
                self._target.owned.process.wait()
            self.restart()
        return figure

    def restart(self) -> None:
        """End broker and bystander; the next attack starts others."""
        self._target = None
        self._stack.close()

    def _start(self) -> None:
        self._target = self._peer or start_kohort(self._folder, self._prepared)
        if self._target.owned is not None:
            self._stack.callback(self._target.owned.stop)
        self._topic_id = topic_id(self._target.address)
        pid = self._target.pid if self._target.owned is not None else 0
        self._bystander = self._stack.enter_context(Bystander(self._target.address, pid))
