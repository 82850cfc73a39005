"""How the audit gets to a cluster: addresses and credentials, and connections that are kept while they are needed.

An `Access` travels to Spark's tasks inside the pickled function, or the pickled partition, that a task runs. It is
never an option of a data source nor text of a plan, because Spark's web pages and event logs show these. It prints as
dots, and has the certificates themselves instead of the names of files that other machines lack.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from threading import Lock

from kohort.client.cluster import Cluster
from kohort.client.settings import load_properties, settings_of
from kohort.client.tls import without_files

CLIENT_ID = "kohort-audit"


class Access:
    __slots__ = ("_properties",)

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = dict(properties)

    @classmethod
    def load(cls, bootstrap: str | None, command_config: str | None) -> Access:
        """Raises WrongSettings if the settings cannot be used."""
        properties = without_files(load_properties(bootstrap, command_config, os.environ))
        settings_of(properties)
        return cls(properties)

    @property
    def bootstrap(self) -> str:
        return self._properties["bootstrap.servers"]

    def connect(self) -> Cluster:
        """Raises ClientError."""
        return Cluster(settings=replace(settings_of(self._properties), client_id=CLIENT_ID))

    def __repr__(self) -> str:
        return "Access(...)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Access) and self._properties == other._properties

    def __hash__(self) -> int:
        return hash(tuple(sorted(self._properties.items())))


_lock = Lock()
_idle: dict[Access, list[Cluster]] = {}
_keepers = 0  # how many `kept_open` blocks there are


@contextmanager
def connected(access: Access) -> Iterator[Cluster]:
    """A cluster that nobody else uses during the `with` block."""
    with _lock:
        idle = _idle.get(access)
        cluster = idle.pop() if idle else None
    if cluster is None:
        cluster = access.connect()
    try:
        yield cluster
    finally:
        with _lock:
            kept = _keepers > 0
            if kept:
                _idle.setdefault(access, []).append(cluster)
        if not kept:
            cluster.close()


@contextmanager
def kept_open() -> Iterator[None]:
    """During the `with` block connections are used again: a login costs milliseconds, and a log has 50 partitions."""
    global _keepers
    with _lock:
        _keepers += 1
    try:
        yield
    finally:
        with _lock:
            _keepers -= 1
            closing = [cluster for some in _idle.values() for cluster in some] if not _keepers else []
            if not _keepers:
                _idle.clear()
        for cluster in closing:
            cluster.close()
