"""Which handler answers which path."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote

TEXT = "text/plain; charset=utf-8"
JSON = "application/json"


class HttpRequest(NamedTuple):
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]  # names in small letters
    body: bytes
    parts: Mapping[str, str] = {}  # the values of the {names} in the handler's path


class HttpAnswer(NamedTuple):
    status: HTTPStatus
    content_type: str
    body: bytes
    headers: Mapping[str, str] = {}
    stream: AsyncGenerator[bytes, None] | None = None  # the body instead, as long as there is more and the client stays


HttpHandler = Callable[[HttpRequest], Awaitable[HttpAnswer]]


class HttpError(Exception):
    """Raised by a handler: the request cannot be answered, and the text says why and what to do."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.status = status


def text_answer(text: str, status: HTTPStatus = HTTPStatus.OK) -> HttpAnswer:
    return HttpAnswer(status, TEXT, text.encode())


def json_answer(value: object, status: HTTPStatus = HTTPStatus.OK) -> HttpAnswer:
    return HttpAnswer(status, JSON, json.dumps(value).encode() + b"\n")


class _Page(NamedTuple):
    path: str
    segments: tuple[str, ...]
    handlers: dict[str, HttpHandler]  # by method


class Site:
    def __init__(self) -> None:
        self._pages: dict[str, _Page] = {}

    def add(self, method: str, path: str, handler: HttpHandler) -> None:
        """A segment of the path like {group} stands for any text. The handler finds it in `parts`."""
        page = self._pages.setdefault(path, _Page(path, tuple(path.split("/")), {}))
        page.handlers[method] = handler

    def pages(self) -> list[tuple[str, str]]:
        """Method and path of each handler."""
        return [(method, page.path) for page in self._pages.values() for method in page.handlers]

    async def answer(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> HttpAnswer:
        """`target` is the path with its query, as the client has sent it."""
        path, _, query = target.partition("?")
        for page in self._pages.values():
            parts = _match(page.segments, path.split("/"))
            if parts is not None:
                handler = page.handlers.get("GET" if method == "HEAD" else method)
                if handler is None:
                    allowed = ", ".join(page.handlers)
                    refusal = text_answer(f"{page.path} takes {allowed}\n", HTTPStatus.METHOD_NOT_ALLOWED)
                    return refusal._replace(headers={"Allow": allowed})
                return await handler(HttpRequest(method, path, dict(parse_qsl(query)), headers, body, parts))
        known = "".join(f"  {' '.join(page.handlers)} {page.path}\n" for page in self._pages.values())
        return text_answer(f"there is nothing at this path; there is:\n{known}", HTTPStatus.NOT_FOUND)


def _match(segments: tuple[str, ...], path: list[str]) -> dict[str, str] | None:
    if len(segments) != len(path):
        return None
    parts = {}
    for expected, found in zip(segments, path, strict=True):
        if expected.startswith("{"):
            parts[expected[1:-1]] = unquote(found)
        elif expected != unquote(found):
            return None
    return parts
