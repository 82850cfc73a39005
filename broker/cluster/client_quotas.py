"""DescribeClientQuotas (48) and AlterClientQuotas (49), v0-1 (KIP-546; v1 is flexible): limits for users and clients.

Kohort has no quotas. There are none to describe, removing one changes nothing, and setting one is refused: a quota that
is stored and not enforced would be a false promise.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import TYPE_CHECKING

from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    OpData,
    ResponseEntryData,
)
from kohort.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.call import Call
    from kohort.broker.steps import Steps

USER, CLIENT_ID, IP = "user", "client-id", "ip"
EXACT, DEFAULT, SPECIFIED = 0, 1, 2  # match types: this name, the default entity, any name


def describe_client_quotas(
    broker: Broker, request: DescribeClientQuotasRequest, call: Call  # noqa: ARG001
) -> Steps[DescribeClientQuotasResponse]:  # fmt: skip
    types: set[str] = set()
    for component in request.components:
        yield
        if component.entity_type not in ("", USER, CLIENT_ID, IP):
            text = f"Unsupported entity type {component.entity_type}"
            return DescribeClientQuotasResponse(0, ErrorCode.UNSUPPORTED_VERSION, text, None)
        if problem := _component_problem(component, types):
            return DescribeClientQuotasResponse(0, ErrorCode.INVALID_REQUEST, problem, None)
        types.add(component.entity_type)
    if IP in types and len(types) > 1:
        text = "An IP address cannot be combined with a user or a client id."
        return DescribeClientQuotasResponse(0, ErrorCode.INVALID_REQUEST, text, None)
    return DescribeClientQuotasResponse(0, 0, "", ())


def _component_problem(component: ComponentData, before: Set[str]) -> str | None:
    """Why a part of the filter cannot be, or None. `before`: the entity types of the parts before it."""
    if not component.entity_type:
        return "Invalid empty entity type."
    if component.entity_type in before:
        return f"Entity type {component.entity_type} cannot appear more than once in the filter."
    if component.match_type not in (EXACT, DEFAULT, SPECIFIED):
        return f"Unknown match type {component.match_type}"
    if component.match_type == EXACT and component.match is None:
        return "An exact match needs a name."
    if component.match_type != EXACT and component.match is not None:
        return "Only an exact match takes a name."
    return None


def alter_client_quotas(
    broker: Broker, request: AlterClientQuotasRequest, call: Call  # noqa: ARG001
) -> Steps[AlterClientQuotasResponse]:  # fmt: skip
    results: dict[tuple[tuple[str, str | None], ...], ResponseEntryData] = {}  # each entity is answered once
    for entry in request.entries:
        yield
        named: dict[str, str | None] = {}
        for part in entry.entity:
            named[part.entity_type] = part.entity_name  # of two equal types the last counts
            yield
        key = tuple(sorted(named.items(), key=lambda part: part[0]))
        if key in results:
            problem: str | None = "The request names this entity more than once."
        else:
            problem = _entity_problem(named) or (yield from _operations_problem(entry.ops))
        entity = [EntityData(*part) for part in named.items()]
        results[key] = ResponseEntryData(ErrorCode.INVALID_REQUEST if problem else 0, problem, entity)
    return AlterClientQuotasResponse(0, list(results.values()))


def _entity_problem(named: dict[str, str | None]) -> str | None:
    if not named:
        return "Invalid empty client quota entity"
    for entity_type, name in named.items():
        if entity_type not in (USER, CLIENT_ID, IP):
            return f"Unhandled client quota entity type: {entity_type}"
        if name == "":
            return f"Empty {entity_type} not supported"
    if IP in named and len(named) > 1:
        return "An IP address cannot be combined with a user or a client id."
    return None


def _operations_problem(operations: Iterable[OpData]) -> Steps[str | None]:
    keys: set[str] = set()
    for operation in operations:
        yield
        if operation.key in keys:
            return f"The request names the quota {operation.key} more than once."
        keys.add(operation.key)
        if not operation.remove:
            return f"Kohort has no quotas: {operation.key} cannot be set."
    return None
