"""The settings of a share group as they are now."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.coordinator.config import ShareGroupSettings


def settings_of(broker: Broker, group_id: str) -> ShareGroupSettings:
    return broker.coordinator.runtime.share.of(group_id)
