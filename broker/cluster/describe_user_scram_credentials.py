"""DescribeUserScramCredentials (50), v0 (KIP-554): which users have passwords. Kohort has no SASL, so nobody has one.

`kafka-configs --describe --entity-type users` asks for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import starmap
from typing import TYPE_CHECKING, Any

from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.call import Call
    from kohort.broker.steps import Steps


def describe_user_scram_credentials(
    broker: Broker, request: DescribeUserScramCredentialsRequest, call: Call  # noqa: ARG001
) -> Steps[DescribeUserScramCredentialsResponse]:  # fmt: skip
    named: Counter[str] = Counter()
    for user in request.users or ():  # null asks for all users, and there are none
        named[user.name] += 1
        yield
    results = Results(named) if call.is_long else [_describe(name, count) for name, count in named.items()]
    return DescribeUserScramCredentialsResponse(0, 0, "", results)


class Results(Sequence[DescribeUserScramCredentialsResult]):
    """The answers to a long request. They are made when they are encoded, and not kept: each has a long text."""

    def __init__(self, named: Counter[str]) -> None:
        self._named = named

    def __len__(self) -> int:
        return len(self._named)

    def __iter__(self) -> Iterator[DescribeUserScramCredentialsResult]:
        return starmap(_describe, self._named.items())

    def __getitem__(self, index: Any) -> Any:
        return list(self)[index]


def _describe(name: str, count: int) -> DescribeUserScramCredentialsResult:
    if count > 1:
        text = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
        return DescribeUserScramCredentialsResult(name, ErrorCode.DUPLICATE_RESOURCE, text, ())
    text = f"Attempt to describe a user credential that does not exist: {name}"
    return DescribeUserScramCredentialsResult(name, ErrorCode.RESOURCE_NOT_FOUND, text, ())
