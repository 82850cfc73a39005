"""What `kohort record --metrics-port` tells Prometheus, and the thread that serves it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from http import HTTPStatus
from threading import Thread

from kohort.broker.http.endpoint import HttpEndpoint
from kohort.broker.http.metrics_page import CONTENT_TYPE
from kohort.broker.http.site import HttpAnswer, HttpRequest, Site
from kohort.broker.metrics import gauge, metric
from kohort.broker.record.recorder import Recorder


def lines(recorder: Recorder) -> Iterator[str]:
    with recorder.lock:
        parts = sorted(recorder.partitions.items())
    yield from gauge(
        "kohort_record_lag", "offsets that the cluster has and the recording has not",
        [(f'partition="{number}"', part.lag) for number, part in parts],
    )  # fmt: skip
    yield from gauge(
        "kohort_record_leaderless_partitions", "partitions that nobody leads at the moment",
        [("", sum(part.leader is None for _, part in parts))],
    )  # fmt: skip
    yield from gauge(
        "kohort_record_log_end_offset", "the offset that the recording goes on at",
        [(f'partition="{number}"', part.position) for number, part in parts],
    )  # fmt: skip
    for name, about, count in (
        ("bytes", "bytes of batches that were recorded since the start", sum(part.bytes for _, part in parts)),
        ("batches", "batches that were recorded since the start", sum(part.batches for _, part in parts)),
        ("lost_offsets", "offsets that the cluster removed before", sum(part.lost for _, part in parts)),
        ("truncations", "cuts, because a leader had another history", sum(part.truncations for _, part in parts)),
    ):
        yield from metric(f"kohort_record_{name}_total", "counter", about, [("", count)])


class MetricsServer:
    """An event loop in a thread of its own: the recording itself has none."""

    def __init__(self, recorder: Recorder, host: str, port: int) -> None:
        """Raises OSError if it cannot listen there."""

        async def answer(_: HttpRequest) -> HttpAnswer:
            return HttpAnswer(HTTPStatus.OK, CONTENT_TYPE, ("\n".join(lines(recorder)) + "\n").encode())

        site = Site()
        site.add("GET", "/metrics", answer)
        opened: set[HttpEndpoint] = set()
        self._loop = asyncio.new_event_loop()
        listening = self._loop.create_server(lambda: HttpEndpoint(site, opened), host, port)
        try:
            self._server = self._loop.run_until_complete(listening)
        except BaseException:
            self._loop.close()
            raise
        self.port: int = self._server.sockets[0].getsockname()[1]
        self._thread = Thread(target=self._loop.run_forever, name="kohort-metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._server.close()
        self._loop.close()
