"""FindCoordinator and InitProducerId."""

from __future__ import annotations

from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.find_coordinator import FindCoordinatorRequest
from kohort.protocol.messages.init_producer_id import InitProducerIdRequest
from tests.parity.peer import Peer
from tests.parity.scenario import scenario

GROUP, TRANSACTION, SHARE = 0, 1, 2


def find(key: str, key_type: int, version: int) -> FindCoordinatorRequest:
    """Both ways to say it: one key before version 4, a list since."""
    return FindCoordinatorRequest(key, key_type, [key] if version >= 4 else [])


def warm_up(peer: Peer) -> None:
    """Past the answers that a broker gives only in its first moments."""
    make_coordinator_topics(peer)

    def has_ids() -> bool:
        answer = peer.quietly(ApiKey.INIT_PRODUCER_ID, InitProducerIdRequest(None, 60_000), 4)
        return bool(answer.error_code == 0)

    peer.wait_until(has_ids, "producer ids")


def make_coordinator_topics(peer: Peer) -> None:
    """The first question makes the topic behind it and answers COORDINATOR_NOT_AVAILABLE: get over that."""
    for key_type in (GROUP, TRANSACTION):

        def found(kind: int = key_type) -> bool:
            answer = peer.quietly(ApiKey.FIND_COORDINATOR, FindCoordinatorRequest("", kind, ["x"]), 6)
            return bool(answer.coordinators[0].error_code == 0)

        peer.wait_until(found, "a coordinator")


@scenario(ApiKey.FIND_COORDINATOR)
def the_coordinator_of_a_group_is_found(peer: Peer) -> None:
    make_coordinator_topics(peer)
    for group in ("g", "another group", "ü", "x" * 1000):
        peer.ask(ApiKey.FIND_COORDINATOR, find(group, GROUP, peer.version))


@scenario(ApiKey.FIND_COORDINATOR)
def an_empty_group_id_has_a_coordinator_too(peer: Peer) -> None:
    make_coordinator_topics(peer)
    peer.ask(ApiKey.FIND_COORDINATOR, find("", GROUP, peer.version))


@scenario(ApiKey.FIND_COORDINATOR, versions=range(1, 7))
def the_coordinator_of_a_transaction_is_found(peer: Peer) -> None:
    make_coordinator_topics(peer)
    peer.ask(ApiKey.FIND_COORDINATOR, find("t", TRANSACTION, peer.version))


@scenario(ApiKey.FIND_COORDINATOR, versions=range(1, 7))
def unknown_key_types_are_refused(peer: Peer) -> None:
    make_coordinator_topics(peer)
    for key_type in (3, 99, -1, 127):
        peer.ask(ApiKey.FIND_COORDINATOR, find("g", key_type, peer.version))


@scenario(ApiKey.FIND_COORDINATOR, versions=range(1, 7))
def share_keys_are_taken_apart(peer: Peer) -> None:
    make_coordinator_topics(peer)
    for key in (
        "no colons",
        "group:notanid:0",
        "group:AAAAAAAAAAAAAAAAAAAAAQ:x",
        ":AAAAAAAAAAAAAAAAAAAAAQ:0",
        "a:b:c:d",
        "",
    ):
        peer.ask(ApiKey.FIND_COORDINATOR, find(key, SHARE, peer.version))


@scenario(ApiKey.FIND_COORDINATOR, versions=range(4, 7))
def many_keys_are_answered_in_their_order_and_as_often_as_asked(peer: Peer) -> None:
    make_coordinator_topics(peer)
    peer.ask(ApiKey.FIND_COORDINATOR, FindCoordinatorRequest("", GROUP, ["b", "a", "b", ""]))
    peer.ask(ApiKey.FIND_COORDINATOR, FindCoordinatorRequest("", GROUP, []))
    peer.ask(ApiKey.FIND_COORDINATOR, FindCoordinatorRequest("", 9, ["b", "a"]))
    peer.ask(ApiKey.FIND_COORDINATOR, FindCoordinatorRequest("", 9, []))


@scenario(ApiKey.INIT_PRODUCER_ID)
def a_producer_without_transactions_gets_an_id(peer: Peer) -> None:
    peer.ask(ApiKey.INIT_PRODUCER_ID, InitProducerIdRequest(None, 60_000))
    peer.ask(ApiKey.INIT_PRODUCER_ID, InitProducerIdRequest(None, 60_000))


@scenario(ApiKey.INIT_PRODUCER_ID)
def the_transaction_timeout_counts_only_for_transactions(peer: Peer) -> None:
    for timeout_ms in (0, -1, 2147483647):
        peer.ask(ApiKey.INIT_PRODUCER_ID, InitProducerIdRequest(None, timeout_ms))


@scenario(ApiKey.INIT_PRODUCER_ID)
def each_producer_gets_an_id_of_its_own(peer: Peer) -> None:
    answers = [peer.ask(ApiKey.INIT_PRODUCER_ID, InitProducerIdRequest(None, 60_000)) for _ in range(3)]
    ids = [answer.producer_id for answer in answers]
    peer.note("ids differ and grow", sorted(set(ids)) == ids)


@scenario(ApiKey.INIT_PRODUCER_ID)
def an_empty_transactional_id_is_refused(peer: Peer) -> None:
    peer.ask(ApiKey.INIT_PRODUCER_ID, InitProducerIdRequest("", 60_000))


@scenario(ApiKey.INIT_PRODUCER_ID, versions=(3, 4, 5))
def an_old_producer_id_without_transactions_is_left_alone(peer: Peer) -> None:
    peer.ask(ApiKey.INIT_PRODUCER_ID, InitProducerIdRequest(None, 60_000, 17, 3))
    peer.ask(ApiKey.INIT_PRODUCER_ID, InitProducerIdRequest(None, 60_000, 17, -1))
    peer.ask(ApiKey.INIT_PRODUCER_ID, InitProducerIdRequest(None, 60_000, -1, 3))
