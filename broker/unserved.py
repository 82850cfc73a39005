"""Clients that cannot be served: a line in the log for each, with what it asked for and what to set instead.

    10.0.0.7:53210 (client id 'billing-1') asked for StreamsGroupHeartbeat version 1: Kohort has no streams groups. In
    Kafka Streams set group.protocol=classic

A client that is refused comes back again and again, so each is told of once, as far as this module remembers.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from kohort.protocol.api_keys import APIS

if TYPE_CHECKING:
    from kohort.broker.broker import Broker

logger = logging.getLogger(__name__)

MAX_REMEMBERED = 1_000
MAX_CLIENT_ID = 255  # characters of it that are remembered
LINE = "%s asked for %s: %s. %s"


class Gap(NamedTuple):
    """Something that Kafka has and Kohort has not, with the names of its APIs by their keys."""

    what: str
    instead: str
    apis: dict[int, str]


SECURITY = Gap(
    "Kohort knows no passwords and no users",
    "Set security.protocol=PLAINTEXT",
    {
        17: "SaslHandshake",
        36: "SaslAuthenticate",
        38: "CreateDelegationToken",
        39: "RenewDelegationToken",
        40: "ExpireDelegationToken",
        41: "DescribeDelegationToken",
        51: "AlterUserScramCredentials",
    },
)
STREAMS_GROUPS = Gap(
    "Kohort has no streams groups",
    "In Kafka Streams set group.protocol=classic",
    {88: "StreamsGroupHeartbeat", 89: "StreamsGroupDescribe"},
)
ONE_BROKER = Gap(
    "Kohort is one broker, with one log folder and no quorum of controllers",
    "There is nothing to set instead",
    {
        34: "AlterReplicaLogDirs",
        55: "DescribeQuorum",
        64: "UnregisterBroker",
        80: "AddRaftVoter",
        81: "RemoveRaftVoter",
    },
)
TELEMETRY = Gap(
    "Kohort takes no metrics of clients",
    "Set enable.metrics.push=false",
    {71: "GetTelemetrySubscriptions", 72: "PushTelemetry"},
)

GAPS = (SECURITY, STREAMS_GROUPS, ONE_BROKER, TELEMETRY)

# What comes instead of the length of a request, if somebody speaks another protocol.
OTHER_PROTOCOLS = {
    b"\x16\x03": ("TLS", "this listener speaks PLAINTEXT", "Set security.protocol=PLAINTEXT"),
    b"GE": ("HTTP", "this is no web server", "Metrics are at the port that kohort.http.port names"),
}


class Unserved:
    """Which clients were told of: the last ones, so that ids that somebody makes up do not fill the memory."""

    def __init__(self) -> None:
        self._told: dict[tuple[str, str, str], None] = {}

    def tell_of_request(self, host: str, client_id: str, client: str, api_key: int, version: int) -> None:
        """A client asked for an API or a version of it that is not served."""
        name, what, instead = _explain(api_key, version)
        self.tell(host, client_id, client, f"{name} version {version}", what, instead)

    def tell_of_bytes(self, host: str, client: str, first_bytes: bytes) -> bool:
        """A client sent bytes that are no request. False: they tell nothing."""
        known = OTHER_PROTOCOLS.get(first_bytes[:2])
        if known is not None:
            self.tell(host, "", client, *known)
        return known is not None

    def tell(self, host: str, client_id: str, client: str, asked: str, what: str, instead: str) -> None:
        """`client` is how the line names the client; `asked`, `what` and `instead` are its three parts."""
        key = host, client_id[:MAX_CLIENT_ID], asked
        if key in self._told:
            return
        if len(self._told) >= MAX_REMEMBERED:
            del self._told[next(iter(self._told))]
        self._told[key] = None
        fields = {"client_id": client_id, "client_host": host, "asked": asked, "why": what, "instead": instead}
        logger.warning(LINE, client, asked, what, instead, extra={"fields": fields})


def unserved(broker: Broker) -> Unserved:
    """Those of this broker. They are made when the first client cannot be served."""
    found: Unserved | None = broker.extra.get("unserved")
    if found is None:
        found = broker.extra["unserved"] = Unserved()
    return found


def _explain(api_key: int, version: int) -> tuple[str, str, str]:
    """The API's name, why it is not served, and what to set instead."""
    for gap in GAPS:
        if api_key in gap.apis:
            return gap.apis[api_key], gap.what, gap.instead
    api = APIS.get(api_key)
    if api is None:
        return f"API {api_key}", "it is not served, nor is it an API of Kafka 4.3", "Use a client of Kafka"
    versions = f"the versions {api.min_version} to {api.max_version} are served"
    if version < api.min_version:
        return api.name, versions, "Use a newer client: Kafka 4 does not have older versions either"
    return api.name, versions, "The client must choose a version that the answer to ApiVersions names"
