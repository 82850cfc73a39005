"""The register of scenarios. A scenario is a function of a Peer whose name is a sentence:

    @scenario(ApiKey.METADATA)
    def a_topic_that_nobody_made_is_unknown(peer: Peer) -> None:
        peer.ask(ApiKey.METADATA, MetadataRequest([MetadataRequestTopic(name=peer.topic())], False))

It runs once per broker and per version of that API, in a state without leftovers of others. What it asks goes into
the transcript; what it prepares (`peer.create`, `peer.append`) does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kohort.protocol.api_keys import APIS, ApiKey
from tests.parity.peer import Peer


@dataclass(frozen=True)
class Scenario:
    name: str
    api_key: ApiKey
    versions: tuple[int, ...]
    play: Callable[[Peer], None]
    alone: bool = False  # looks at the broker as a whole: no other scenario may run at that time
    pair: str = ""  # of brokers with other settings than usual, see run.py


SCENARIOS: list[Scenario] = []


def scenario(
    api_key: ApiKey, versions: Iterable[int] | None = None, *, alone: bool = False, pair: str = ""
) -> Callable[[Callable[[Peer], None]], Callable[[Peer], None]]:
    """Registers a function, for all versions of the API or for the given ones."""

    def register(play: Callable[[Peer], None]) -> Callable[[Peer], None]:
        _add(play.__name__.replace("_", " "), api_key, versions, play, alone, pair)
        return play

    return register


def requests(api_key: ApiKey, table: Mapping[str, Any], versions: Iterable[int] | None = None) -> None:
    """Registers a table of scenarios that send one request each: sentence -> request."""

    def asking(request: Any) -> Callable[[Peer], None]:
        def play(peer: Peer) -> None:
            peer.ask(api_key, request)

        return play

    for name, request in table.items():
        _add(name, api_key, versions, asking(request))


def _add(
    name: str,
    api_key: ApiKey,
    versions: Iterable[int] | None,
    play: Callable[[Peer], None],
    alone: bool = False,
    pair: str = "",
) -> None:
    api = APIS[api_key]
    wanted = range(api.min_version, api.max_version + 1) if versions is None else versions
    assert not any(each.name == name for each in SCENARIOS), f"two scenarios are called {name!r}"
    SCENARIOS.append(Scenario(name, api_key, tuple(wanted), play, alone, pair))
