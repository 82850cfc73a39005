"""Consumers of confluent-kafka, each in a process of its own, on the same stage as those of consumers.py."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress

from tests.clients.remote_consumer import ConsumerFailed, RemoteConsumer
from tests.why.consumers import COMMIT_S, PAUSE_S, Consumer
from tests.why.stage import Restartable, Stage

POLL_S = 0.05


class RealConsumer(Consumer):
    def __init__(
        self, address: str, group: str, name: str, topics: Sequence[str], *, instance: str | None = None,
        assignors: Sequence[str] = ("range",), session_ms: int = 3_000, poll_ms: int = 60_000, is_new: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(address, group, name, topics, instance)
        settings = {
            "bootstrap.servers": address,
            "group.id": group,
            "client.id": name,
            "enable.auto.commit": False,
            "topic.metadata.refresh.interval.ms": 500,
            "max.poll.interval.ms": poll_ms,
            "log_level": 0,
        }
        if is_new:
            settings["group.protocol"] = "consumer"
        else:
            settings["session.timeout.ms"] = min(session_ms, poll_ms - 500)  # a log cannot tell equal timeouts apart
            settings["heartbeat.interval.ms"] = 300
            settings["partition.assignment.strategy"] = ",".join(assignors)
        if instance is not None:
            settings["group.instance.id"] = instance
        self._remote = RemoteConsumer(settings, list(topics))
        self._places: set[tuple[str, int]] = set()
        self.start()

    @property
    def share(self) -> set[tuple[str, int]]:
        return self._places

    def _live(self) -> None:
        subscribed = list(self.topics)
        while self._ending is None:
            now = time.monotonic()
            if now < self._frozen_until:
                self._freeze(self._frozen_until - now)
            if now < self._busy_until:
                time.sleep(PAUSE_S)  # librdkafka goes on with heartbeats
                continue
            if subscribed != self.topics:
                subscribed = list(self.topics)
                self._remote.subscribe(subscribed)
            self._remote.poll(POLL_S)
            self._places = self._remote.assignment()
            if now >= self._commit_at and self._places:
                self._commit_at = now + COMMIT_S
                self._commit_some()
        if self._ending == "close":
            self._commit_some()
            self._remote.close()
        else:
            self._remote.kill()
        self._places = set()

    def _commit_some(self) -> None:
        self._offset += 1
        with suppress(ConsumerFailed):  # a rebalance is going on, or the broker is away
            self._remote.commit(dict.fromkeys(self._places, self._offset))

    def _freeze(self, seconds: float) -> None:
        pid = self._remote._process.pid
        os.kill(pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(pid, signal.SIGCONT)


class RealStage(Stage):
    def __init__(self, broker: Restartable, group: str) -> None:
        super().__init__(broker, f"real-{group}")

    def join(  # type: ignore[override]
        self, name: str, *topics: str, instance: str | None = None, assignors: Sequence[str] = ("range",),
        session_ms: int = 3_000, poll_ms: int = 60_000,
    ) -> Consumer:  # fmt: skip
        consumer = RealConsumer(
            self.broker.address, self.group, name, topics or (self.topic,), instance=instance, assignors=assignors,
            session_ms=session_ms, poll_ms=poll_ms,
        )  # fmt: skip
        self.members.append(consumer)
        return consumer

    def join_new(  # type: ignore[override]
        self, name: str, *topics: str, instance: str | None = None, poll_ms: int = 60_000
    ) -> Consumer:
        consumer = RealConsumer(
            self.broker.address,
            self.group,
            name,
            topics or (self.topic,),
            instance=instance,
            poll_ms=poll_ms,
            is_new=True,
        )
        self.members.append(consumer)
        return consumer
