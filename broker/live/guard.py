"""Who may look at the page.

Without a token only this machine may: the port must be on loopback, and a page of another site must not read it (see
http/hosts.py). With a token, requests must bring it: as `Authorization: Bearer ...`, or in the cookie that the login
page sets. The cookie holds a digest of the token.
"""

from __future__ import annotations

from hashlib import sha256
from hmac import compare_digest
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from typing import Final

from kohort.broker.http.hosts import is_loopback, names_this_machine
from kohort.broker.http.site import HttpError, HttpRequest

MIN_TOKEN: Final = 16  # characters
BEARER: Final = "bearer "


class WrongToken(ValueError):
    """The token cannot be used; the text says why."""


class Guard:
    def __init__(self, host: str, token: str | None) -> None:
        """`host` is where the port is opened. Raises WrongToken."""
        if token is not None and (len(token) < MIN_TOKEN or not token.isascii() or not token.isprintable()):
            raise WrongToken(
                f"a token must have at least {MIN_TOKEN} printable ASCII characters: `openssl rand -hex 16` makes one"
            )
        self.host = host
        self.is_open = token is not None or is_loopback(host)
        self.asks_token = token is not None
        self._token = (token or "").encode()
        self._digest = sha256(b"kohort-live " + self._token).hexdigest()
        self._cookie = f"kohort-{self._digest[:8]}"

    def check(self, request: HttpRequest) -> None:
        """Raises HttpError if the sender may not look."""
        if not self.is_open:
            raise HttpError(
                HTTPStatus.FORBIDDEN,
                "the live page is closed, since this port can be reached from other machines: set kohort.http.token, or"
                " open the port with kohort.http.host=127.0.0.1",
            )
        if self.asks_token:
            if not self.knows(request):
                raise HttpError(HTTPStatus.UNAUTHORIZED, "send the token: Authorization: Bearer TOKEN")
        elif not names_this_machine(request.headers.get("host", ""), self.host):
            given = request.headers.get("host", "")[:100]
            raise HttpError(
                HTTPStatus.FORBIDDEN,
                f"the Host header is {given!r}: without a token the live page answers only to an IP address or"
                " localhost, since a web page could come with a name of its own",
            )

    def knows(self, request: HttpRequest) -> bool:
        given = request.headers.get("authorization", "")
        if given[: len(BEARER)].lower() == BEARER:
            return self.is_token(given[len(BEARER) :].strip())
        try:
            morsel = SimpleCookie(request.headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            return False
        return morsel is not None and compare_digest(morsel.value.encode(), self._digest.encode())

    def is_token(self, text: str) -> bool:
        """Takes as long for a token that is nearly right as for any other."""
        return compare_digest(sha256(text.encode()).digest(), sha256(self._token).digest())

    def cookie(self) -> str:
        """For the browser of somebody who has brought the token."""
        return f"{self._cookie}={self._digest}; Path=/; HttpOnly; SameSite=Strict; Max-Age=604800"
