"""Settings of the broker that were changed while it ran (KIP-226), for instance with kafka-configs.

    kohort-broker-configs.json    {"version": 1, "broker": {name: value}, "cluster": {name: value}}

There are two levels, as in Kafka: settings of this broker, and defaults of all brokers of the cluster. A setting of
this broker wins over a default of the cluster, and both win over what the broker was started with. The file is written
whole and atomically before a change is answered, and read again at the next start.
"""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from kohort.broker.broker import DYNAMIC_CONFIGS_FILE
from kohort.broker.steps import Pause, WaitingSteps
from kohort.broker.topics.broker_settings import CHANGEABLE, IGNORED, own_settings
from kohort.broker.topics.topic_config import LIST, STRING, InvalidConfig, parse_value
from kohort.printable import printable
from kohort.storage.errors import FileDamaged

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.config import Config

logger = logging.getLogger(__name__)

BROKER_LEVEL, CLUSTER_LEVEL = "broker", "cluster"


class DynamicConfigs:
    def __init__(self, config: Config) -> None:
        self._config = config  # what is in force; the rest of the broker reads this
        self._path = f"{config.data_folder}/{DYNAMIC_CONFIGS_FILE}"
        self.static = replace(config)  # what the broker was started with
        self.levels: dict[str, dict[str, str]] = {BROKER_LEVEL: {}, CLUSTER_LEVEL: {}}
        self._saving: Pause | None = None

    def restore(self, saved: bytes) -> None:
        """Put what an earlier run saved into force. A value that cannot be used any more is left out.

        FileDamaged if the content is not what `change` writes.
        """
        try:
            found = json.loads(saved)
            levels = {level: dict(found[level]) for level in self.levels}
        except (ValueError, LookupError, TypeError) as problem:
            raise FileDamaged(
                f"{self._path} is damaged: {problem}. It holds the settings that were changed while the broker ran. "
                "Put back a copy of it, or remove it to go on without these changes"
            ) from problem
        for level, configs in self.levels.items():
            for name, value in levels[level].items():
                try:
                    if name in CHANGEABLE:
                        parse_value(own_settings()[name], str(value).strip())
                    configs[name] = str(value)
                except InvalidConfig as problem:
                    logger.error("a setting of %s is left out: %s", DYNAMIC_CONFIGS_FILE, printable(str(problem)))
        self._put_into_force()

    def unchanging(self) -> WaitingSteps[None]:
        """Wait until no change is being saved: then look at what is in force, and make a change without a pause."""
        while self._saving is not None:
            yield self._saving

    def change(self, broker: Broker, level: str, configs: dict[str, str]) -> WaitingSteps[None]:
        """Replace all settings of a level by these, which were checked before. A thread waits for the disk.

        OSError: nothing has changed. The caller has waited for `unchanging` just before.
        """
        before = self.levels[level]
        wanted = {**self.levels, level: configs}
        content = json.dumps({"version": 1, **wanted}, indent=1).encode()
        saving = self._saving = Pause()
        problems: list[Exception] = []

        def save() -> None:
            try:
                broker.disk.write_file(self._path, content)
            except Exception as problem:  # it is raised below
                problems.append(problem)

        def saved() -> None:
            self._saving = None
            try:
                if not problems:
                    self.levels = wanted
                    self._put_into_force()
                    broker.catalog.defaults_changed()
                    _tell(before, configs, "broker" if level == BROKER_LEVEL else "cluster")
            finally:  # somebody waits for it, whatever happened
                saving.end()

        broker.catalog.save_in_thread(save, saved)
        if not saving.is_over:
            yield saving
        if problems:
            raise problems[0]

    def _put_into_force(self) -> None:
        for name in CHANGEABLE:
            attribute = name.replace(".", "_")
            text = self.levels[BROKER_LEVEL].get(name, self.levels[CLUSTER_LEVEL].get(name))
            if text is None:
                setattr(self._config, attribute, getattr(self.static, attribute))
            else:
                known, text = own_settings()[name], text.strip()
                setattr(self._config, attribute, text if known.type in (STRING, LIST) else parse_value(known, text))


def dynamic_configs(broker: Broker) -> DynamicConfigs:
    """Those of this broker. They are made when somebody first asks, so that start-up does not pay for them."""
    found: DynamicConfigs | None = broker.extra.get("dynamic_configs")
    if found is None:
        found = broker.extra["dynamic_configs"] = DynamicConfigs(broker.config)
    return found


def _tell(before: dict[str, str], now: dict[str, str], level: str) -> None:
    for name in sorted(before.keys() | now.keys()):
        if before.get(name) == now.get(name):
            continue
        if name in CHANGEABLE:
            value = printable(now.get(name, "what the broker started with"))
            logger.info("setting %s of the %s is now %s", name, level, value)
        elif name in now:
            known = "has no effect in Kohort" if name in IGNORED else "is ignored: neither Kafka nor Kohort has it"
            logger.warning("setting %s of the %s is kept, but %s", printable(name), level, known)
