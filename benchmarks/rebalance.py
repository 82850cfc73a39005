"""Members of one group for benchmarks: they join and sync until all of them hold one generation, as clients do."""

from __future__ import annotations

import selectors
import socket
from typing import Any

from benchmarks.broker import frame
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.codec import response_decoder
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.headers import read_response_header
from kohort.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kohort.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

JOIN_VERSION = 3  # needs no second try with an id
SYNC_VERSION = 3
SILENCE_S = 0.05
PROTOCOLS = [JoinGroupRequestProtocol("range", bytes(60))]


class Member:
    def __init__(self, group: str, connected: socket.socket, session_ms: int) -> None:
        self.group = group
        self.connected = connected
        self.member_id = ""
        self.generation = -1
        self.is_stable = False
        self._session_ms = session_ms
        self._asked = ApiKey.JOIN_GROUP
        self._received = b""

    def join(self) -> None:
        self.is_stable, self._asked = False, ApiKey.JOIN_GROUP
        timeout_ms = self._session_ms
        request = JoinGroupRequest(self.group, timeout_ms, timeout_ms, self.member_id, None, "consumer", PROTOCOLS)
        self.connected.sendall(frame(ApiKey.JOIN_GROUP, JOIN_VERSION, request))

    def receive(self) -> None:
        self._received += self.connected.recv(1 << 20)
        size = int.from_bytes(self._received[:4], "big") + 4
        if len(self._received) < size:
            return
        answer, self._received = self._received[4:size], self._received[size:]
        version = JOIN_VERSION if self._asked is ApiKey.JOIN_GROUP else SYNC_VERSION
        _, pos = read_response_header(answer, self._asked, version)
        self._take(response_decoder(self._asked, version)(answer, pos))

    def _take(self, answer: Any) -> None:
        if answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            self.join()
            return
        assert answer.error_code == 0, answer
        if self._asked is ApiKey.SYNC_GROUP:
            self.is_stable = True
            return
        self.member_id, self.generation = answer.member_id, answer.generation_id
        self._asked = ApiKey.SYNC_GROUP
        # The leader alone is told who the others are, and deals.
        dealt = [SyncGroupRequestAssignment(member.member_id, bytes(100)) for member in answer.members]
        request = SyncGroupRequest(self.group, self.generation, self.member_id, assignments=dealt)
        self.connected.sendall(frame(ApiKey.SYNC_GROUP, SYNC_VERSION, request))


class Crew:
    """The members of one group, each with a connection to itself while it joins."""

    def __init__(self, group: str, connections: list[socket.socket], session_ms: int) -> None:
        self.members = [Member(group, each, session_ms) for each in connections]
        self._selector = selectors.DefaultSelector()
        for member in self.members:
            self._selector.register(member.connected, selectors.EVENT_READ, member)

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *_: object) -> None:
        self._selector.close()

    def rebalance(self) -> None:
        """Everyone joins again, the leader first, whose rejoin is the reason; until all hold one generation."""
        for member in self.members:
            member.join()
        while not self._agree():
            ready = self._selector.select(SILENCE_S)
            for key, _ in ready:
                key.data.receive()
            if not ready:  # somebody's JoinGroup waits for those who think that they are done
                for member in self.members:
                    if member.is_stable:
                        member.join()

    def _agree(self) -> bool:
        newest = max(member.generation for member in self.members)
        for member in self.members:
            if member.is_stable and member.generation < newest:
                member.join()  # a heartbeat would have told it
        return all(member.is_stable and member.generation == newest for member in self.members)
