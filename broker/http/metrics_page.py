"""GET /metrics, in the text format of Prometheus."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from http import HTTPStatus
from time import monotonic_ns
from typing import Final

from kohort.broker.http.site import HttpAnswer, HttpHandler, HttpRequest
from kohort.broker.metrics import Metrics

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
SLICE_NS: Final = 5_000_000


def metrics_page(metrics: Metrics) -> HttpHandler:
    async def answer(request: HttpRequest) -> HttpAnswer:  # noqa: ARG001
        lines = await _in_slices(metrics.lines())
        return HttpAnswer(HTTPStatus.OK, CONTENT_TYPE, ("\n".join(lines) + "\n").encode())

    return answer


async def _in_slices(lines: Iterator[str]) -> list[str]:
    """Make the lines in slices, between other requests: there may be many topics and groups."""
    made: list[str] = []
    until = monotonic_ns() + SLICE_NS
    for line in lines:
        if line:
            made.append(line)
        if monotonic_ns() > until:
            await asyncio.sleep(0)
            until = monotonic_ns() + SLICE_NS
    return made
