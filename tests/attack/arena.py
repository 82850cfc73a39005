"""A broker and a bystander beside it, for one attack after the other; both are started anew when that is needed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType

from tests.attack.attacker import NO_ANSWER, STUCK, Attack, Figure, attack
from tests.attack.bystander import Bystander
from tests.attack.target import Target, topic_id

Start = Callable[[ExitStack], Target]  # starts a broker, and leaves on the stack what ends it


class Arena:
    def __init__(self, start: Start) -> None:
        self._start = start
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
            self._target = self._start(self._stack)
            self._topic_id = topic_id(self._target.address)
            pid = self._target.pid if self._target.has_event_loop else 0
            self._bystander = self._stack.enter_context(Bystander(self._target.address, pid))
        figure = attack(self._target, self._bystander, each, self._topic_id)
        if figure.result in (STUCK, NO_ANSWER):
            print(f"{figure.result}: {figure.api} {figure.shape}\n{self._target.log_tail()}")
            self._target.kill()
            self.restart()
        return figure

    def restart(self) -> None:
        """End broker and bystander; the next attack starts others."""
        self._target = None
        self._stack.close()
