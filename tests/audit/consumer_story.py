"""A story of consumer groups (KIP-848) on a real broker, with real consumers, for the audit to tell afterwards.

orders    members that name their topic: they come, one is static and is away for a moment, one is killed
clicks    members that subscribe by a regular expression, for which a further topic is created
parcels   a rolling restart from the classic protocol to the new one, and back
"""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.audit.crew import STATIC, Crew, Place
from tests.clients.group_broker import GroupBroker

ORDERS, CLICKS, PARCELS = "orders", "clicks", "parcels"
PARTITIONS = 6
DEADLINE_S = 240.0  # for a busy machine; nothing is measured by it
SESSION_MS = 6_000
NEW = {"group.protocol": "consumer"}
# Not cooperative-sticky: librdkafka's assignments have user data then, and Kafka refuses to convert such a group.
CLASSIC = {"partition.assignment.strategy": "range", "session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": 20}
# librdkafka gives up a heartbeat that is not answered within this time, and may then never learn of its partitions
# (docs/clients.md, known client problems): not shorter than a busy broker may need for an answer.
HEARTBEAT_MS = 250
BROKER = {
    "group_initial_rebalance_delay_ms": "0",
    "group_consumer_min_heartbeat_interval_ms": str(HEARTBEAT_MS),
    "group_consumer_heartbeat_interval_ms": str(HEARTBEAT_MS),
    "group_consumer_min_session_timeout_ms": str(SESSION_MS),
    "group_consumer_session_timeout_ms": str(SESSION_MS),
    "group_consumer_assignment_interval_ms": "0",
}


class Told(NamedTuple):
    data: Path  # of the broker, which has stopped
    crews: dict[str, Crew]
    causes: dict[str, dict[int, str]]  # of the rebalances, by generation or epoch: what the broker logged


def places(*topics: str) -> list[Place]:
    return [(topic, number) for topic in topics for number in range(PARTITIONS)]


def tell(folder: Path) -> Told:
    deadline = time.monotonic() + DEADLINE_S
    with GroupBroker(folder, **BROKER) as broker:
        admin = AdminClient({"bootstrap.servers": broker.address})

        def create(*topics: str) -> None:
            for done in admin.create_topics([NewTopic(topic, PARTITIONS, 1) for topic in topics]).values():
                done.result(DEADLINE_S)

        def crew(group: str, settings: dict[str, Any], topic: str, first: str) -> Crew:
            return Crew(broker.address, group, random.Random(848), settings, [topic], places(first), (1, 9))

        create(ORDERS, "clicks-web", PARCELS)
        crews = {
            ORDERS: crew(ORDERS, NEW, ORDERS, ORDERS),
            CLICKS: crew(CLICKS, NEW, "^clicks-.*", "clicks-web"),
            PARCELS: crew(PARCELS, CLASSIC, PARCELS, PARCELS),
        }
        try:
            orders(crews[ORDERS], deadline)
            clicks(crews[CLICKS], deadline, create)
            parcels(crews[PARCELS], deadline)
            broker.process.stop()  # with all members that are there
        finally:
            for member in [member for each in crews.values() for member in each.members]:
                member.consumer.kill()
        causes = {group: {each.generation: each.cause for each in broker.rebalances(group)} for group in crews}
        return Told(broker.process.data, crews, causes)


def orders(crew: Crew, deadline: float) -> None:
    first, second = crew.join(), crew.join()
    crew.settle(deadline)
    static = crew.join(STATIC)
    crew.settle(deadline)
    crew.close(static)  # and it comes back
    crew.settle(deadline)
    crew.kill(second)
    crew.settle(deadline)
    crew.leave(first)
    crew.settle(deadline)


def clicks(crew: Crew, deadline: float, create: Any) -> None:
    first, _ = crew.join(), crew.join()
    crew.settle(deadline)
    create("clicks-app")
    crew.places = set(places("clicks-web", "clicks-app"))
    crew.settle(deadline)
    crew.leave(first)
    crew.settle(deadline)


def parcels(crew: Crew, deadline: float) -> None:
    """One by one: each is stopped and comes back with the other protocol."""
    members = [crew.join(), crew.join(), crew.join()]
    crew.settle(deadline)
    for settings in (NEW, CLASSIC):
        crew.settings = settings
        for number, member in enumerate(members):
            crew.leave(member)
            members[number] = crew.join()
            crew.settle(deadline)
