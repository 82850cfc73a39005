"""Changes of the settings of single groups: what AlterConfigs and IncrementalAlterConfigs share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.broker.topics.create_topics import Refused
from kohort.broker.topics.group_configs import checked
from kohort.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.steps import WaitingSteps

# A group need not exist to have settings, so there have to be limits.
MAX_GROUPS = 10_000
MAX_GROUP_ID = 1_000  # characters


def replace_group_configs(
    broker: Broker, group_id: str, configs: dict[str, str], *, validate_only: bool
) -> WaitingSteps[None] | None:
    """Check all settings of a group together. Raises Refused or InvalidConfig for settings that are not allowed.

    Returns the steps that put the settings into force, or None if nothing has to change. The caller has waited for
    `Catalog.unchanging`, and takes the first step without a pause.
    """
    known = broker.catalog.group_configs
    kept = checked(broker.config, configs)
    if len(group_id) > MAX_GROUP_ID:
        raise Refused(
            ErrorCode.INVALID_REQUEST, f"Kohort keeps settings of groups with up to {MAX_GROUP_ID} characters."
        )
    if kept and group_id not in known and len(known) >= MAX_GROUPS:
        raise Refused(ErrorCode.POLICY_VIOLATION, f"Kohort keeps settings of {MAX_GROUPS} groups at most.")
    if validate_only or kept == known.get(group_id, {}):
        return None
    return broker.catalog.making(broker.catalog.alteration_of_group(group_id, kept))


def check_group_id(group_id: str) -> str:
    if not group_id:
        raise Refused(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
    return group_id
