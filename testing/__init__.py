"""A broker inside your test, whose time and faults the test controls.

    from kohort.testing import Broker

    with Broker() as kafka:
        kafka.create_topic("orders", partitions=6)
        ...                                       # any client on kafka.bootstrap_servers
        kafka.group("billing").wait_until(state="Stable", members=2, timeout=10)

Read in this order:

    broker.py     what a test holds: Broker, with its groups, topics, faults and clock
    host.py       the broker's thread and event loop, and how a test looks inside
    watch.py      each request passes here: its time is set, it is written down, faults are applied
    group.py, topic.py, views.py   what a test sees
    clock.py      time that can be advanced and frozen; liveness.py: which members are alive meanwhile
    faults.py     what can go wrong on purpose; errors.py: answers with an error
    disk_faults.py, disk.py        slow and full disks
    chaos.py      random trouble from a seed; turnstile.py: looks and restarts do not meet
    check.py      the audit's rules over what the test has left; story.py: what has happened, for people
    pytest_plugin.py   the fixtures `kafka` and `kafka_session`
    names.py      APIs and errors by Kafka's names

Nothing is imported before `Broker` is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if __name__ != "kohort.testing":  # the repository itself is on sys.path: each module would exist twice
    raise ImportError(f"import kohort.testing, not {__name__}", name=__name__)

if TYPE_CHECKING:
    from kohort.testing.broker import Broker as Broker

__all__ = ["Broker"]


def __getattr__(name: str) -> object:
    if name != "Broker":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from kohort.testing.broker import Broker

    return Broker
