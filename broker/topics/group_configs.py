"""The settings of single groups: Kafka's names, types, defaults and limits, and the broker's settings they inherit.

Those of consumer groups and of share groups are honoured. Kohort has no streams groups: the settings of those are kept
and shown, because Kafka's tools show all of them, and have no effect.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from kohort.broker.config import INT32_MAX
from kohort.broker.topics.topic_config import BOOLEAN, INT, STRING, InvalidConfig, Setting, parse_value

if TYPE_CHECKING:
    from kohort.broker.config import Config


def _number(name: str, default: int, low: int) -> Setting:
    kind, _, rest = name.partition(".")
    return Setting(name, INT, str(default), f"group.{kind}.{rest}", low, INT32_MAX)


_ROWS = (
    _number("consumer.session.timeout.ms", 45_000, 1),
    _number("consumer.heartbeat.interval.ms", 5_000, 1),
    _number("consumer.assignment.interval.ms", 1_000, 0),
    _number("share.session.timeout.ms", 45_000, 1),
    _number("share.heartbeat.interval.ms", 5_000, 1),
    _number("share.record.lock.duration.ms", 30_000, 1_000),
    _number("share.delivery.count.limit", 5, 2),
    _number("share.partition.max.record.locks", 2_000, 100),
    Setting("share.auto.offset.reset", STRING, "latest"),
    Setting("share.isolation.level", STRING, "read_uncommitted", choices=("read_committed", "read_uncommitted")),
    Setting("share.renew.acknowledge.enable", BOOLEAN, "true"),
    _number("share.assignment.interval.ms", 1_000, 0),
    _number("streams.session.timeout.ms", 45_000, 1),
    _number("streams.heartbeat.interval.ms", 5_000, 1),
    _number("streams.num.standby.replicas", 0, 0),
    _number("streams.initial.rebalance.delay.ms", 3_000, 0),
    _number("streams.assignment.interval.ms", 1_000, 0),
)

GROUP_SETTINGS: dict[str, Setting] = {row.name: row for row in _ROWS}


class Limits(NamedTuple):
    low_setting: str  # the broker's setting that is the lowest value; empty: there is none
    low: int
    high_setting: str
    high: int


def _limits(kind: str, value: str, low: int, high: int) -> Limits:
    return Limits(f"group.{kind}.min.{value}", low, f"group.{kind}.max.{value}", high)


# The values are Kafka's defaults. Kohort has the broker's settings for consumer and share groups: their values win.
_LIMITS = {
    "consumer.heartbeat.interval.ms": _limits("consumer", "heartbeat.interval.ms", 5_000, 15_000),
    "consumer.session.timeout.ms": _limits("consumer", "session.timeout.ms", 45_000, 60_000),
    "consumer.assignment.interval.ms": _limits("consumer", "assignment.interval.ms", 0, 15_000),
    "share.heartbeat.interval.ms": _limits("share", "heartbeat.interval.ms", 5_000, 15_000),
    "share.session.timeout.ms": _limits("share", "session.timeout.ms", 45_000, 60_000),
    "share.record.lock.duration.ms": _limits("share", "record.lock.duration.ms", 15_000, 60_000),
    "share.delivery.count.limit": _limits("share", "delivery.count.limit", 2, 10),
    "share.partition.max.record.locks": _limits("share", "partition.max.record.locks", 100, 4_000),
    "share.assignment.interval.ms": _limits("share", "assignment.interval.ms", 0, 15_000),
    "streams.heartbeat.interval.ms": _limits("streams", "heartbeat.interval.ms", 5_000, 15_000),
    "streams.session.timeout.ms": _limits("streams", "session.timeout.ms", 45_000, 60_000),
    "streams.num.standby.replicas": Limits("", 0, "group.streams.max.standby.replicas", 2),
    "streams.assignment.interval.ms": _limits("streams", "assignment.interval.ms", 0, 15_000),
}

_DURATION = re.compile(
    r"(?P<sign>[-+]?)P(?:(?P<days>[-+]?\d{1,18})D)?"
    r"(?:T(?=[-+\d])(?:(?P<hours>[-+]?\d{1,18})H)?(?:(?P<minutes>[-+]?\d{1,18})M)?"
    r"(?:(?P<seconds>[-+]?\d{1,18})(?:[.,](?P<fraction>\d{0,9}))?S)?)?",
    re.ASCII | re.IGNORECASE,
)
_SECONDS = {"days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1}


def checked(config: Config, configs: dict[str, str]) -> dict[str, str]:
    """All settings of a group as they are kept and shown. InvalidConfig for one that cannot be, in Kafka's words."""
    for name in configs:
        if name not in GROUP_SETTINGS:
            raise InvalidConfig(f"Unknown group config name: {name}")
    kept = {name: _parsed(known, configs[name]) for name, known in GROUP_SETTINGS.items() if name in configs}
    for name, limits in _LIMITS.items():
        if name in kept:
            _check_limits(config, name, int(kept[name]), limits)
    for kind in ("consumer", "share", "streams"):
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if int(kept.get(session, _inherited(config, session))) <= int(
            kept.get(heartbeat, _inherited(config, heartbeat))
        ):
            raise InvalidConfig(f"{session} must be greater than {heartbeat}")
    return kept


def _parsed(known: Setting, value: str) -> str:
    text = value.strip()
    parsed = parse_value(known, text)
    if known.name == "share.auto.offset.reset" and text not in ("earliest", "latest"):
        start, _, duration = text.partition(":")
        if start != "by_duration" or not _is_duration(duration):
            raise InvalidConfig(
                f"Invalid value {text} for configuration {known.name}: The value must be either 'earliest', 'latest' "
                "or of the format 'by_duration:<PnDTnHnMn.nS>'."
            )
    return text if known.type == STRING else str(parsed).lower()


def _is_duration(text: str) -> bool:
    """Whether Java's java.time.Duration reads this, and it is not negative."""
    found = _DURATION.fullmatch(text)
    if found is None or text[-1] in "Pp":
        return False
    total = sum(int(found[unit] or 0) * seconds for unit, seconds in _SECONDS.items())
    below_zero = total < 0 or (total == 0 and (found["seconds"] or "").startswith("-") and int(found["fraction"] or 0))
    return not (total > 0 if found["sign"] == "-" else below_zero)


def _check_limits(config: Config, name: str, value: int, limits: Limits) -> None:
    low = getattr(config, limits.low_setting.replace(".", "_"), limits.low)
    high = getattr(config, limits.high_setting.replace(".", "_"), limits.high)
    if value < low:
        raise InvalidConfig(f"{name} must be greater than or equal to {limits.low_setting}")
    if value > high:
        raise InvalidConfig(f"{name} must be less than or equal to {limits.high_setting}")


def _inherited(config: Config, name: str) -> int:
    known = GROUP_SETTINGS[name]
    return int(getattr(config, (known.broker_setting or "").replace(".", "_"), known.default))
