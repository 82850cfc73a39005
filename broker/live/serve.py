"""`kohort ui`: the live page of a cluster or of a folder, served by a process of its own."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from errno import EADDRINUSE
from http import HTTPStatus
from threading import Thread

from kohort.broker.http.endpoint import HttpEndpoint
from kohort.broker.http.metrics_page import CONTENT_TYPE
from kohort.broker.http.site import HttpAnswer, HttpHandler, HttpRequest, Site
from kohort.broker.http.slices import in_slices
from kohort.broker.live.cluster_tail import ClusterTail, Questions
from kohort.broker.live.explainer import Explainer
from kohort.broker.live.feed import Feed
from kohort.broker.live.folder_tail import FolderTail
from kohort.broker.live.group_metrics import group_lines
from kohort.broker.live.guard import Guard
from kohort.broker.live.log_source import LogSource
from kohort.broker.live.page_site import add_live_page
from kohort.broker.why.cluster import ClusterLog
from kohort.broker.why.folders import Folders
from kohort.client.cluster import Cluster
from kohort.client.settings import ClientSettings

JOIN_S = 5.0


class CannotServe(Exception):
    """The page's address cannot be used; the text says why."""


async def serve_cluster(settings: ClientSettings, guard: Guard, port: int, started: Callable[[str], object]) -> None:
    """Until a signal comes. Raises ClientError, OSError, or what the follower has failed with."""
    loop = asyncio.get_running_loop()

    @contextmanager
    def log() -> Iterator[ClusterLog]:
        with Cluster(settings=settings) as cluster:
            yield ClusterLog(cluster)

    source = LogSource({"kind": "cluster", "where": ", ".join(settings.bootstrap)}, loop.call_soon, Explainer(log))
    tail = ClusterTail(settings, source, loop)
    stopping = _until_signal()
    failed: list[BaseException] = []

    def follow() -> None:
        try:
            tail.run()
        except BaseException as problem:
            failed.append(problem)
        loop.call_soon_threadsafe(stopping.set)

    following = Thread(target=follow, name="kohort-follow", daemon=True)
    questions = Questions(settings, source, loop)
    following.start()
    questions.start()
    try:
        await _serve(source, guard, port, stopping, started)
    finally:
        tail.stop()
        questions.stop()
        await loop.run_in_executor(None, following.join, JOIN_S)
    if failed:
        raise failed[0]


async def serve_folder(folder: str, guard: Guard, port: int, started: Callable[[str], object]) -> None:
    """Until a signal comes. Raises NoLogs or OSError."""
    loop = asyncio.get_running_loop()
    explainer = Explainer(lambda: nullcontext(Folders([folder])))
    source = LogSource({"kind": "folder", "where": folder}, loop.call_soon, explainer)
    tail = FolderTail(folder, source, loop)
    stopping = _until_signal()
    tail.start()
    try:
        await _serve(source, guard, port, stopping, started)
    finally:
        tail.stop()
        await loop.run_in_executor(None, tail.join, JOIN_S)


async def _serve(
    source: LogSource, guard: Guard, port: int, stopping: asyncio.Event, started: Callable[[str], object]
) -> None:
    feed = Feed(source)
    site = Site()
    add_live_page(site, feed, guard)
    site.add("GET", "/metrics", _metrics(source))
    endpoints: set[HttpEndpoint] = set()
    loop = asyncio.get_running_loop()
    try:
        server = await loop.create_server(lambda: HttpEndpoint(site, endpoints), guard.host or None, port)
    except OSError as problem:
        if problem.errno == EADDRINUSE:
            raise CannotServe(f"port {port} is in use: take another with --port (0: any free one)") from None
        raise CannotServe(f"cannot listen on {guard.host}:{port}: {problem.strerror or problem}") from None
    try:
        host, bound = server.sockets[0].getsockname()[:2]
        started(f"http://[{host}]:{bound}/" if ":" in host else f"http://{host}:{bound}/")
        await stopping.wait()
    finally:
        feed.stop()
        server.close()
        for endpoint in list(endpoints):
            endpoint.hang_up()


def _metrics(source: LogSource) -> HttpHandler:
    async def answer(request: HttpRequest) -> HttpAnswer:  # noqa: ARG001
        lines = [line for line in await in_slices(group_lines(source)) if line]
        return HttpAnswer(HTTPStatus.OK, CONTENT_TYPE, ("\n".join(lines) + "\n").encode())

    return answer


def _until_signal() -> asyncio.Event:
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    return stopping
