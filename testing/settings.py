"""The settings of a broker in a test: those of Kafka, with other defaults where Kafka's make a test wait."""

from __future__ import annotations

from collections.abc import Mapping

from kohort.broker.config import Config, ConfigError, load_config

Settings = Mapping[str, str | int | float | bool]

TEST_DEFAULTS: dict[str, str | int | float | bool] = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "auto.create.topics.enable": True,
    "group.initial.rebalance.delay.ms": 0,  # Kafka waits 3 s for more members before a new group's first generation
    "group.min.session.timeout.ms": 1,  # a client may ask for any session timeout
    # A KIP-848 member heartbeats as often as the broker says, and learns of its partitions with its heartbeats.
    "group.consumer.heartbeat.interval.ms": 200,
    "group.consumer.min.heartbeat.interval.ms": 1,
    "group.consumer.min.session.timeout.ms": 1,
    "group.share.heartbeat.interval.ms": 200,
    "group.share.min.heartbeat.interval.ms": 1,
    "group.share.min.session.timeout.ms": 1,
    "group.share.min.record.lock.duration.ms": 1_000,
    "group.share.assignment.interval.ms": 0,
}

MEMORY = "/memory"  # the data folder on a disk in memory


class WrongSettings(ValueError):
    """A setting that neither Kafka nor Kohort has, or a value that it cannot have."""


def config_of(settings: Settings, data_folder: str) -> Config:
    chosen = {**TEST_DEFAULTS, **settings, "log.dirs": data_folder}
    try:
        return load_config(overrides=[f"{name}={_text(value)}" for name, value in chosen.items()])
    except ConfigError as problem:
        raise WrongSettings(str(problem).replace("--override ", "")) from None


def _text(value: str | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
