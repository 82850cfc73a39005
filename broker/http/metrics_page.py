"""GET /metrics, in the text format of Prometheus."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from kohort.broker.http.site import HttpAnswer, HttpHandler, HttpRequest
from kohort.broker.http.slices import in_slices
from kohort.broker.metrics import Metrics

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


def metrics_page(metrics: Metrics) -> HttpHandler:
    async def answer(request: HttpRequest) -> HttpAnswer:  # noqa: ARG001
        lines = [line for line in await in_slices(metrics.lines()) if line]
        return HttpAnswer(HTTPStatus.OK, CONTENT_TYPE, ("\n".join(lines) + "\n").encode())

    return answer
