"""A consumer of confluent-kafka in a process of its own, for tests that poll several consumers in turn.

confluent-kafka can hang for ever in close (docs/clients.md, known client problems) while it holds the GIL. In the
test's own process that would be the end of the test run; a process can be killed.

    test -> consumer    {"call": "poll", "arguments": [0.02]}
    consumer -> test    {"result": ..., "error": [code, text] or null, "told": [what it was assigned or lost meanwhile]}

One line of JSON each, on standard input and output.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tests.clients.group_member import CLOSE_DEADLINE_S

ROOT = Path(__file__).parents[2]
Place = tuple[str, int]  # topic and partition


class Told(NamedTuple):
    """What the consumer was told by its group: partitions that it owns from now on, or no longer."""

    time: float
    member_id: str
    gained: frozenset[Place]
    lost: frozenset[Place]


class ConsumerFailed(Exception):
    """A call raised KafkaException; `code` is librdkafka's."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class RemoteConsumer:
    """The test's side. `on_told` is called for what the consumer was told, during the next call of any method."""

    def __init__(
        self, settings: dict[str, Any], topics: Sequence[str], on_told: Callable[[Told], object] = lambda _: None
    ) -> None:
        self._on_told = on_told
        command = [sys.executable, "-m", "tests.clients.remote_consumer", json.dumps(settings), json.dumps(topics)]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self.was_killed = False

    def subscribe(self, topics: Sequence[str]) -> None:
        self._ask("subscribe", list(topics))

    def poll(self, timeout_s: float) -> None:
        self._ask("poll", timeout_s)

    def assignment(self) -> set[Place]:
        return {(topic, partition) for topic, partition in self._ask("assignment")}

    def commit(self, offsets: dict[Place, int]) -> None:
        """Waits for the answer. ConsumerFailed if the broker refuses, or is away."""
        self._ask("commit", [[*place, offset] for place, offset in offsets.items()])

    def member_id(self) -> str:
        member_id: str = self._ask("member_id")
        return member_id

    def close(self) -> None:
        """Leave the group. A consumer that hangs in close is killed; then its session has to expire."""
        self._send("close")
        try:
            answer, _ = self._process.communicate(timeout=CLOSE_DEADLINE_S)
            self._take(answer)
        except subprocess.TimeoutExpired:
            print("a consumer hung in close and was killed (docs/clients.md, known client problems)")
            self.was_killed = True
            self.kill()

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _ask(self, call: str, *arguments: Any) -> Any:
        self._send(call, *arguments)
        assert self._process.stdout is not None
        return self._take(self._process.stdout.readline())

    def _send(self, call: str, *arguments: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"call": call, "arguments": arguments}) + "\n")
        self._process.stdin.flush()

    def _take(self, line: str) -> Any:
        assert line, f"the consumer's process ended with {self._process.wait()}"
        answer = json.loads(line)
        for moment, member_id, gained, lost in answer["told"]:
            self._on_told(Told(moment, member_id, _places(gained), _places(lost)))
        if answer["error"] is not None:
            raise ConsumerFailed(*answer["error"])
        return answer["result"]


def _places(rows: Iterable[Sequence[Any]]) -> frozenset[Place]:
    return frozenset((topic, partition) for topic, partition in rows)


class _Served:
    """The consumer's side: the methods are the calls."""

    def __init__(self, settings: dict[str, Any], topics: list[str]) -> None:
        self._told: list[tuple[float, str, list[Place], list[Place]]] = []
        self._consumer: Any = Consumer(settings)
        self.subscribe(topics)

    def subscribe(self, topics: list[str]) -> None:
        self._consumer.subscribe(topics, on_assign=self._gained, on_revoke=self._lost)

    def _gained(self, _: Any, places: list[Any]) -> None:
        self._note([(each.topic, each.partition) for each in places], [])

    def _lost(self, _: Any, places: list[Any]) -> None:
        self._note([], [(each.topic, each.partition) for each in places])

    def _note(self, gained: list[Place], lost: list[Place]) -> None:
        self._told.append((time.time(), self._consumer.memberid(), gained, lost))

    def poll(self, timeout_s: float) -> None:
        self._consumer.poll(timeout_s)

    def assignment(self) -> list[Place]:
        return [(each.topic, each.partition) for each in self._consumer.assignment()]

    def commit(self, rows: list[tuple[str, int, int]]) -> None:
        for place in self._consumer.commit(offsets=[TopicPartition(*row) for row in rows], asynchronous=False):
            if place.error is not None:
                raise KafkaException(place.error)

    def member_id(self) -> str:
        member_id: str = self._consumer.memberid()
        return member_id

    def close(self) -> None:
        self._consumer.close()

    def answer(self, call: str, arguments: list[Any]) -> None:
        result, error = None, None
        try:
            result = getattr(self, call)(*arguments)
        except KafkaException as problem:
            cause: KafkaError = problem.args[0]
            error = cause.code(), str(cause)
        print(json.dumps({"result": result, "error": error, "told": self._told}), flush=True)
        self._told.clear()


def main() -> None:
    served = _Served(json.loads(sys.argv[1]), json.loads(sys.argv[2]))
    for line in sys.stdin:
        asked = json.loads(line)
        served.answer(asked["call"], asked["arguments"])
        if asked["call"] == "close":
            return


if __name__ == "__main__":
    main()
