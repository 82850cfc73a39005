"""Changes of the broker's settings while it runs: what AlterConfigs and IncrementalAlterConfigs share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.broker.topics.broker_settings import changeable_setting, is_fixed
from kohort.broker.topics.create_topics import Refused
from kohort.broker.topics.describe_configs import broker_name_problem
from kohort.broker.topics.dynamic_configs import BROKER_LEVEL, CLUSTER_LEVEL, dynamic_configs
from kohort.broker.topics.topic_config import InvalidConfig, parse_value
from kohort.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.config import Config
    from kohort.broker.steps import WaitingSteps

MAX_CONFIGS = 1_000  # unknown names are kept as well, so there has to be a limit


def level_of(broker: Broker, resource_name: str) -> str:
    """The level that a resource's name stands for; an empty name is the cluster. Raises Refused for another broker."""
    if not resource_name:
        return CLUSTER_LEVEL
    if problem := broker_name_problem(resource_name, broker.config.node_id, "{}"):
        raise Refused(ErrorCode.INVALID_REQUEST, problem)
    return BROKER_LEVEL


def current_configs(broker: Broker, level: str) -> dict[str, str]:
    return dict(dynamic_configs(broker).levels[level])


def default_of(name: str) -> str:
    known = changeable_setting(name)
    return "" if known is None else known.default


def replace_configs(
    broker: Broker, level: str, configs: dict[str, str], *, validate_only: bool
) -> WaitingSteps[None] | None:
    """Check all settings of a level together. Raises Refused for one that is not allowed. Returns the steps that put
    the settings into force, or None if nothing has to change.
    """
    if len(configs) > MAX_CONFIGS:
        raise Refused(ErrorCode.INVALID_REQUEST, f"Kohort keeps {MAX_CONFIGS} settings at most.")
    fixed = [name for name in configs if is_fixed(name)]
    if fixed:
        raise Refused(ErrorCode.INVALID_REQUEST, f"Cannot update these configs dynamically: [{', '.join(fixed)}]")
    for name, value in configs.items():
        _check(broker.config, name, value.strip())
    if validate_only or configs == current_configs(broker, level):
        return None
    return dynamic_configs(broker).change(broker, level, configs)


def _check(config: Config, name: str, text: str) -> None:
    known = changeable_setting(name)
    if known is None:
        return  # Kafka takes a name that it does not know for the setting of a plug-in
    try:
        value = parse_value(known, text)
    except InvalidConfig as problem:
        raise Refused(ErrorCode.INVALID_REQUEST, str(problem)) from None
    if name == "log.retention.ms" and value == 0:
        raise Refused(ErrorCode.INVALID_REQUEST, f"{name} must be unlimited (-1) or, greater than or equal to 1")
    if name == "group.consumer.assignment.interval.ms":
        low, high = config.group_consumer_min_assignment_interval_ms, config.group_consumer_max_assignment_interval_ms
        if not low <= int(text) <= high:
            raise Refused(ErrorCode.INVALID_REQUEST, f"{name} must be between {low} and {high}, the broker's limits")
