"""The pages for tests: which requests are refused, and how.

Anybody who can send requests here controls the broker. The port is open on loopback, which does not keep
out web pages: a page that somebody looks at on the same machine can send requests to 127.0.0.1. So
- the Host header has to be an IP address, localhost, or the host that the port was opened on. A page whose own name was
  made to resolve to 127.0.0.1 (DNS rebinding) sends its own name;
- a POST has to be application/json. A page can send that to another site only if the site allows it. This one does not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from http import HTTPStatus
from typing import Final

from kohort.audit.run.in_a_test import NotInstalled
from kohort.broker.http.hosts import names_this_machine
from kohort.broker.http.site import JSON, HttpAnswer, HttpError, HttpRequest, Site, json_answer
from kohort.testing.broker import Refused
from kohort.testing.check import CheckFailed
from kohort.testing.group import UnknownGroup, UnknownMember
from kohort.testing.host import NotRunning
from kohort.testing.http.ask import Ask, BadAsk, UnknownFault, read_json
from kohort.testing.topic import UnknownTopic
from kohort.testing.transaction import NoTransaction, UnknownTransaction

Control = Callable[[Ask], object]  # may block; what it returns is sent as JSON
HTTP_ERRORS_FROM: Final = 400


class ControlSite(Site):
    def __init__(self, host: str, executor: Executor) -> None:
        """`host` is where the port was opened. Controls run in `executor`, one thread for each."""
        super().__init__()
        self._host = host
        self._executor = executor

    def add_control(self, method: str, path: str, control: Control) -> None:
        async def handler(request: HttpRequest) -> HttpAnswer:
            ask = _ask(request)
            return await asyncio.get_running_loop().run_in_executor(self._executor, _answer, control, ask)

        self.add(method, path, handler)

    async def answer(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> HttpAnswer:
        try:
            self._check_host(headers.get("host", ""))
            answer = await super().answer(method, target, headers, body)
        except HttpError as problem:
            return _error(problem.status, str(problem))
        if answer.status >= HTTP_ERRORS_FROM and answer.content_type != JSON:
            return _error(answer.status, answer.body.decode().strip())._replace(headers=answer.headers)
        return answer

    def _check_host(self, given: str) -> None:
        if names_this_machine(given, self._host):
            return
        raise HttpError(
            HTTPStatus.FORBIDDEN,
            f"the Host header is {given[:100]!r}: controls for tests answer only to an IP address or localhost, since "
            "a web page could come with a name of its own; ask http://127.0.0.1, or start with kohort.http.host=NAME",
        )


def _answer(control: Control, ask: Ask) -> HttpAnswer:
    try:
        return json_answer(control(ask))
    except TimeoutError as problem:
        return _error(HTTPStatus.GATEWAY_TIMEOUT, str(problem))
    except (UnknownTopic, UnknownGroup, UnknownMember, UnknownTransaction, UnknownFault) as problem:
        return _error(HTTPStatus.NOT_FOUND, str(problem))
    except (NotRunning, Refused, NoTransaction, CheckFailed) as problem:
        return _error(HTTPStatus.CONFLICT, str(problem))
    except NotInstalled as problem:
        return _error(HTTPStatus.NOT_IMPLEMENTED, str(problem))
    except ValueError as problem:  # BadAsk, or what the broker under test does not take
        return _error(HTTPStatus.BAD_REQUEST, str(problem))


def _ask(request: HttpRequest) -> Ask:
    if request.method in ("GET", "HEAD"):
        return Ask(request.query, request.parts, query=True)
    if request.method == "POST" and request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
        raise HttpError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "send JSON, with the header Content-Type: application/json (curl --json)"
        )
    try:
        return Ask(read_json(request.body), request.parts)
    except BadAsk as problem:
        raise HttpError(HTTPStatus.BAD_REQUEST, str(problem)) from None


def _error(status: HTTPStatus, text: str) -> HttpAnswer:
    return json_answer({"error": text}, status)
