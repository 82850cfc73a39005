"""The paths of the live page and of its API.

/                                the page; its style and scripts are beside it, under /live/
/api/about                       where these groups are
/api/groups                      all groups, a line each
/api/groups/{group}              one group: members, owners over time, partitions, rebalances
/api/groups/{group}/rebalances   its rebalances alone
/api/groups/{group}/why          its last rebalances, explained as `kohort why` does
/api/rebalances                  the last rebalances of all groups
/api/watch                       the lines of all groups, and every change of them, as server-sent events
/api/watch/{group}               one group, likewise
/healthz                         whether this answers; without a token, too
"""

from __future__ import annotations

from heapq import nlargest
from http import HTTPStatus
from importlib.resources import files
from typing import Any, Final
from urllib.parse import parse_qs

from kohort.broker.http.site import HttpAnswer, HttpError, HttpHandler, HttpRequest, Site, json_answer, text_answer
from kohort.broker.http.slices import in_slices
from kohort.broker.live.explainer import CannotExplain
from kohort.broker.live.feed import Feed, TooManyWatchers, key_of
from kohort.broker.live.guard import Guard
from kohort.broker.live.rows import GroupRow, PartitionRow
from kohort.broker.live.view import cut, shown_rebalance

ASSETS: Final = files("kohort.broker.live") / "assets"
TYPES: Final = {
    "css": "text/css; charset=utf-8", "html": "text/html; charset=utf-8", "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}  # fmt: skip
SCRIPTS_AND_STYLE: Final = (
    "style.css", "icon.svg", "page.js", "dom.js", "colours.js", "overview.js", "group.js", "strip.js", "timeline.js",
    "feed.js", "format.js", "theme.js", "login.js", "chart.js", "tables.js", "trend.js",
)  # fmt: skip
# Nothing from elsewhere, no script or style in the page itself, and nobody may show the page inside another.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none';"
    " form-action 'self'; frame-ancestors 'none'"
)
SAFE: Final = {
    "Content-Security-Policy": POLICY,
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
EVENTS: Final = "text/event-stream; charset=utf-8"
MAX_REBALANCES: Final = 500


def add_live_page(site: Site, feed: Feed, guard: Guard) -> None:
    api = LiveApi(feed)

    def guarded(handler: HttpHandler) -> HttpHandler:
        async def answer(request: HttpRequest) -> HttpAnswer:
            guard.check(request)
            return _safe(await handler(request))

        return answer

    site.add("GET", "/", _page(guard))
    site.add("GET", "/index.html", _page(guard))
    site.add("POST", "/login", _login(guard))
    for name in SCRIPTS_AND_STYLE:  # nothing secret: the login page needs them, too
        site.add("GET", f"/live/{name}", _asset(name))
    site.add("GET", "/favicon.ico", _asset("icon.svg"))
    site.add("GET", "/healthz", _healthy)
    site.add("GET", "/api/about", guarded(api.about))
    site.add("GET", "/api/groups", guarded(api.groups))
    site.add("GET", "/api/groups/{group}", guarded(api.group))
    site.add("GET", "/api/groups/{group}/rebalances", guarded(api.group_rebalances))
    site.add("GET", "/api/groups/{group}/why", guarded(api.why))
    site.add("GET", "/api/rebalances", guarded(api.rebalances))
    site.add("GET", "/api/watch", guarded(api.watch))
    site.add("GET", "/api/watch/{group}", guarded(api.watch_group))


class LiveApi:
    def __init__(self, feed: Feed) -> None:
        self._feed = feed

    async def about(self, request: HttpRequest) -> HttpAnswer:  # noqa: ARG002
        return json_answer(self._feed.source.about())

    async def groups(self, request: HttpRequest) -> HttpAnswer:  # noqa: ARG002
        rows = await self._feed.all_rows()
        return json_answer({"now": self._feed.source.now_ms(), "groups": [_named(row) for row in rows]})

    async def group(self, request: HttpRequest) -> HttpAnswer:
        group_id = await self._feed.find(request.parts["group"])
        shown = await self._feed.group_now(group_id)
        if not shown["exists"]:
            raise HttpError(HTTPStatus.NOT_FOUND, f"there is no group {cut(group_id)!r}; GET /api/groups lists them")
        made = await in_slices(self._feed.source.partitions(group_id))
        shown["partitions"] = [_partition(row) for row in sorted(row for row in made if row is not None)]
        return json_answer(shown)

    async def group_rebalances(self, request: HttpRequest) -> HttpAnswer:
        group_id = await self._feed.find(request.parts["group"])
        history = self._feed.source.histories.get(group_id)
        told = [] if history is None else [shown_rebalance(each) for each in reversed(history.rebalances)]
        return json_answer({"group": cut(group_id), "rebalances": told})

    async def why(self, request: HttpRequest) -> HttpAnswer:
        source = self._feed.source
        group_id = await self._feed.find(request.parts["group"])
        history = source.histories.get(group_id)
        if history is None or source.explainer is None:
            return json_answer({"group": cut(group_id), "explanations": []})
        try:
            explained = await source.explainer.explain(history)
        except CannotExplain as problem:
            raise HttpError(HTTPStatus.SERVICE_UNAVAILABLE, str(problem)) from None
        return json_answer({"group": cut(group_id), "explanations": explained})

    async def rebalances(self, request: HttpRequest) -> HttpAnswer:
        try:
            count = max(1, min(MAX_REBALANCES, int(request.query.get("count", "50"))))
        except ValueError:
            raise HttpError(HTTPStatus.BAD_REQUEST, "count must be a number") from None
        groups = list(reversed(self._feed.source.histories.groups.values()))[:MAX_REBALANCES]
        told = ((each.at_ms, number, group, each) for number, group in enumerate(groups) for each in group.rebalances)
        newest = nlargest(count, told, key=lambda entry: entry[:2])
        return json_answer(
            {"rebalances": [{"group": cut(group.group_id), **shown_rebalance(each)} for _, _, group, each in newest]}
        )

    async def watch(self, request: HttpRequest) -> HttpAnswer:  # noqa: ARG002
        try:
            return HttpAnswer(HTTPStatus.OK, EVENTS, b"", stream=self._feed.overview())
        except TooManyWatchers as problem:
            raise HttpError(HTTPStatus.SERVICE_UNAVAILABLE, str(problem)) from None

    async def watch_group(self, request: HttpRequest) -> HttpAnswer:
        try:
            stream = self._feed.group(await self._feed.find(request.parts["group"]))
        except TooManyWatchers as problem:
            raise HttpError(HTTPStatus.SERVICE_UNAVAILABLE, str(problem)) from None
        return HttpAnswer(HTTPStatus.OK, EVENTS, b"", stream=stream)


def _named(row: GroupRow) -> dict[str, Any]:
    shown = row._asdict()
    if (key := key_of(row.group)) != row.group:
        shown["group"], shown["key"] = cut(row.group), key
    return shown


def _page(guard: Guard) -> HttpHandler:
    async def answer(request: HttpRequest) -> HttpAnswer:
        if guard.is_open and guard.asks_token and not guard.knows(request):
            return _safe(_file("login.html", HTTPStatus.UNAUTHORIZED))
        guard.check(request)
        return _safe(_file("index.html"))

    return answer


def _login(guard: Guard) -> HttpHandler:
    """The form of the login page: the token comes in the body, so that it stands in no address and no log."""

    async def answer(request: HttpRequest) -> HttpAnswer:
        given = parse_qs(request.body.decode("utf-8", "replace")).get("token", [""])[0].strip()
        if not guard.asks_token or not guard.is_token(given):
            page = _file("login.html", HTTPStatus.UNAUTHORIZED)
            return _safe(page._replace(body=page.body.replace(b' role="alert" hidden', b' role="alert"')))
        to_page = {"Location": "/", "Set-Cookie": guard.cookie()}
        return _safe(text_answer("welcome\n", HTTPStatus.SEE_OTHER)._replace(headers=to_page))

    return answer


def _asset(name: str) -> HttpHandler:
    async def answer(request: HttpRequest) -> HttpAnswer:  # noqa: ARG001
        return _safe(_file(name))

    return answer


def _partition(row: PartitionRow) -> dict[str, Any]:
    shown = row._asdict()
    shown["deliveries"] = None if row.deliveries is None else row.deliveries._asdict()
    return shown


async def _healthy(request: HttpRequest) -> HttpAnswer:  # noqa: ARG001
    return text_answer("ok\n")


_read: dict[str, bytes] = {}


def _file(name: str, status: HTTPStatus = HTTPStatus.OK) -> HttpAnswer:
    if name not in _read:
        _read[name] = (ASSETS / name).read_bytes()
    return HttpAnswer(status, TYPES[name.rpartition(".")[2]], _read[name])


def _safe(answer: HttpAnswer) -> HttpAnswer:
    return answer._replace(headers={**SAFE, **answer.headers})
