"""What answers to ShareFetch and ShareAcknowledge have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.broker.steps import all_steps
from kohort.broker.topics.catalog import LEADER_EPOCH
from kohort.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.call import Call
    from kohort.broker.steps import Steps
    from kohort.protocol.wire import Message

MAX_MEMBER_ID = 36  # UTF-16 code units: a UUID as text
AT_ONCE = 500  # partitions and ranges; answers that name more are made in steps
PER_STEP = 100


def reply(call: Call, steps: Steps[Message], count: int) -> None:
    """Answer a request that waited. `count`: of the partitions and ranges that the answer names."""
    if count <= AT_ONCE and not call.is_gone:
        call.reply(all_steps(steps))
    else:
        call.reply_in_steps(steps)


def request_problem(group_id: str | None, member_id: str | None) -> ErrorCode | None:
    """The error for a request that names no group, or no possible member of one."""
    if group_id is None or not member_id or len(member_id.encode("utf-16-le", "surrogatepass")) > 2 * MAX_MEMBER_ID:
        return ErrorCode.INVALID_REQUEST
    return None


class CurrentLeader:
    """An answer with certain errors says who leads the partition now. With one broker it is always this one."""

    __slots__ = ("_broker", "_call", "is_told")

    def __init__(self, broker: Broker, call: Call) -> None:
        self._broker = broker
        self._call = call
        self.is_told = False

    def is_told_with(self, error: int) -> bool:
        is_told = error in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
        self.is_told = self.is_told or is_told
        return is_told

    @property
    def id_and_epoch(self) -> tuple[int, int]:
        return self._broker.config.node_id, LEADER_EPOCH

    @property
    def endpoint(self) -> tuple[int, str, int, str | None]:
        listener = self._broker.advertised[self._call.listener_index]
        config = self._broker.config
        return config.node_id, listener.host, listener.port, config.broker_rack or None
