"""Error codes in words that say what to do, and waiting for a broker that is not ready yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic, sleep
from typing import Protocol, TypeVar

from kohort.client.errors import AccessDenied, ClientError
from kohort.protocol.error_codes import ErrorCode

NOT_READY = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)
NOT_ALLOWED: dict[int, str] = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "the user has no right to this topic (DESCRIBE to see it, READ to read it)",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "the user has no right to this group (DESCRIBE to see it)",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: (
        "the user has no right to this transactional id (DESCRIBE to see it, WRITE to abort its transaction)"
    ),
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "the user has no right to this in the cluster",
}
READY_TIMEOUT_S = 30.0
READY_PAUSE_S = 0.1

_ADVICE: dict[int, str] = {
    ErrorCode.NON_EMPTY_GROUP: "it has members; stop them first",
    ErrorCode.UNKNOWN_MEMBER_ID: "the group has members; stop them first",  # the answer to a commit by a non-member
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "the group consumes this topic; stop its members first",
    ErrorCode.GROUP_ID_NOT_FOUND: "there is no such group",
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "there is no such transactional id",
    **NOT_ALLOWED,
}


class HasErrorCode(Protocol):
    error_code: int


Answer = TypeVar("Answer", bound=HasErrorCode)


def error_name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"


def why(code: int) -> str:
    """The error in words that say what to do, if there are such words; or else its name."""
    return _ADVICE.get(code, error_name(code))


def fail_on(code: int, what: str) -> None:
    if code:
        raise (AccessDenied if code in NOT_ALLOWED else ClientError)(f"{what}: {why(code)}")


def once_ready(ask: Callable[[], Sequence[Answer]], what: str) -> Sequence[Answer]:
    """Ask until the broker no longer answers that it is not ready yet."""
    deadline = monotonic() + READY_TIMEOUT_S
    while True:
        answers = ask()
        waiting = [answer.error_code for answer in answers if answer.error_code in NOT_READY]
        if not waiting:
            break
        if monotonic() > deadline:
            raise ClientError(f"{what}: the broker is still not ready ({error_name(waiting[0])}); its log may say why")
        sleep(READY_PAUSE_S)
    for answer in answers:
        fail_on(answer.error_code, what)
    return answers
