"""What AlterConfigs and IncrementalAlterConfigs share: each resource once; changes of many topics saved together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from kohort.broker.topics.alter_broker_configs import MAX_CONFIGS
from kohort.broker.topics.create_topics import TOPICS_PER_SAVE, Refused, saving
from kohort.broker.topics.describe_configs import BROKER, GROUP, NOT_HERE, TOPIC
from kohort.broker.topics.dynamic_configs import dynamic_configs
from kohort.broker.topics.topic_config import InvalidConfig
from kohort.broker.topics.topic_names import name_problem
from kohort.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.steps import WaitingSteps
    from kohort.broker.topics.catalog import Topic


class Resource(Protocol):
    """Something that has settings: a topic, a group, this broker, all brokers."""

    @property
    def resource_type(self) -> int: ...

    @property
    def resource_name(self) -> str: ...

    @property
    def configs(self) -> Sized: ...


R = TypeVar("R", bound=Resource)
NewConfigs = tuple["Topic", dict[str, str]]


Response = TypeVar("Response")
Outcome = tuple[int, "str | None"]  # error and message
CHANGED: Outcome = (0, None)


class Responses(Sequence[Response], Generic[Response]):
    """A response for each resource. They are made when they are encoded, and not kept: there may be very many."""

    def __init__(
        self,
        resources: Sequence[Resource],
        outcomes: Sequence[Outcome],
        make: Callable[[int, str | None, int, str], Response],
    ) -> None:
        self._resources = resources
        self._outcomes = outcomes
        self._make = make

    def __len__(self) -> int:
        return len(self._outcomes)

    def __iter__(self) -> Iterator[Response]:
        for resource, (error, message) in zip(self._resources, self._outcomes, strict=True):
            yield self._make(error, message, resource.resource_type, resource.resource_name)

    def __getitem__(self, index: Any) -> Any:
        return list(self)[index]


def alter_all(
    broker: Broker,
    resources: Sequence[R],
    alter: Callable[[R], NewConfigs | WaitingSteps[None] | None],
    *,
    validate_only: bool,
) -> WaitingSteps[list[Outcome]]:
    """Change the settings of the resources. Returns what became of each.

    Args:
        alter: returns what to change for a topic, and the steps that change a group or a broker. Raises Refused or
            InvalidConfig for what is not allowed.
    """
    doubles = yield from _named_twice(resources)
    outcomes: list[Outcome] = []
    changes: dict[int, NewConfigs] = {}  # by place in the list of outcomes
    for resource in resources:
        yield None
        outcome = CHANGED
        try:
            if _key(resource) in doubles:
                raise Refused(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            if len(resource.configs) > MAX_CONFIGS:
                raise Refused(ErrorCode.INVALID_REQUEST, f"Kohort keeps {MAX_CONFIGS} settings at most.")
            yield from _unchanging(broker, resource.resource_type)
            change = alter(resource)
            if isinstance(change, tuple):
                if not validate_only:
                    changes[len(outcomes)] = change
            elif change is not None:
                with saving():
                    yield from change
        except Refused as refused:
            outcome = refused.error, str(refused) or None
        except InvalidConfig as problem:
            outcome = ErrorCode.INVALID_CONFIG, str(problem)
        outcomes.append(outcome)
    failed = yield from _save(broker, list(changes.items()))
    for place, why in failed.items():
        outcomes[place] = why.error, str(why) or None
    return outcomes


def _named_twice(resources: Sequence[Resource]) -> WaitingSteps[set[tuple[int, str]]]:
    seen: set[tuple[int, str]] = set()
    doubles: set[tuple[int, str]] = set()
    for resource in resources:
        key = _key(resource)
        (doubles if key in seen else seen).add(key)
        yield None
    return doubles


def _unchanging(broker: Broker, resource_type: int) -> WaitingSteps[None]:
    """Wait until nobody changes what `alter` looks at, for resources that are changed one by one."""
    if resource_type == BROKER:
        yield from dynamic_configs(broker).unchanging()
    elif resource_type == GROUP:
        yield from broker.catalog.unchanging()


def _key(resource: Resource) -> tuple[int, str]:
    """One key for all ways to write the number of a broker."""
    name = resource.resource_name
    if resource.resource_type == BROKER and name:
        name = name.lstrip("0") or "0"
    return resource.resource_type, name


def _save(broker: Broker, changes: Sequence[tuple[int, NewConfigs]]) -> WaitingSteps[dict[int, Refused]]:
    """Save the changes, of some topics at a time. Returns the errors of those that could not be saved, by place."""
    failed: dict[int, Refused] = {}
    for start in range(0, len(changes), TOPICS_PER_SAVE):
        yield from broker.catalog.unchanging()
        some = []
        for place, (topic, configs) in changes[start : start + TOPICS_PER_SAVE]:
            if broker.catalog.get(topic.name) is topic:
                some.append((place, topic, configs))
            else:  # another request has deleted it, since this change was checked
                failed[place] = no_such_topic(topic.name)
        try:
            with saving():
                new_configs = [(topic, configs) for _, topic, configs in some]
                yield from broker.catalog.making(broker.catalog.alteration_of(new_configs))
        except Refused as refused:
            failed.update({place: refused for place, _, _ in some})
        yield None
    return failed


def named_topic(broker: Broker, resource_type: int, name: str) -> Topic:
    """The topic of this name. Raises Refused for any other resource, and if there is no such topic."""
    if resource_type != TOPIC:
        raise Refused(ErrorCode.INVALID_REQUEST, NOT_HERE.get(resource_type, f"Unknown resource type {resource_type}"))
    if not name:
        raise Refused(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    if problem := name_problem(name):
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
    topic = broker.catalog.get(name)
    if topic is None:
        raise no_such_topic(name)
    return topic


def no_such_topic(name: str) -> Refused:
    return Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")


def refuse_doubles(names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        raise Refused(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")


def refuse_nulls(names: Iterable[str]) -> None:
    for name in names:
        raise Refused(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {name}")
