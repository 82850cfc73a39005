"""DescribeAcls (29), CreateAcls (30) and DeleteAcls (31), v1-3: who may do what.

v1 adds pattern types (KIP-290); v2 is flexible; v3 adds users as a resource type (KIP-373).
Kohort has no authorizer and answers as a Kafka without one does: SECURITY_DISABLED. MirrorMaker 2 asks for ACLs at
every interval and takes this error for "there is nothing to copy".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.broker.call import NO_ANSWER, NoAnswer
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from kohort.protocol.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse
from kohort.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.call import Call
    from kohort.broker.steps import Steps

UNKNOWN = 0  # a resource type, pattern type, operation or permission type that the client itself calls unknown
NO_AUTHORIZER = "No Authorizer is configured."
NO_AUTHORIZER_ON_THE_BROKER = "No Authorizer is configured on the broker"


def describe_acls(broker: Broker, request: DescribeAclsRequest, call: Call) -> DescribeAclsResponse | NoAnswer:  # noqa: ARG001
    codes = (
        request.resource_type_filter,
        request.pattern_type_filter,
        request.operation,
        request.permission_type,
    )
    if UNKNOWN in codes:
        return _hang_up(call)
    return DescribeAclsResponse(0, ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER_ON_THE_BROKER, ())


def create_acls(broker: Broker, request: CreateAclsRequest, call: Call) -> Steps[CreateAclsResponse | NoAnswer]:  # noqa: ARG001
    for each in request.creations:
        if UNKNOWN in (each.resource_type, each.resource_pattern_type, each.operation, each.permission_type):
            return _hang_up(call)
        yield
    result = AclCreationResult(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    return CreateAclsResponse(0, [result] * len(request.creations))


def delete_acls(broker: Broker, request: DeleteAclsRequest, call: Call) -> Steps[DeleteAclsResponse | NoAnswer]:  # noqa: ARG001
    for each in request.filters:
        if UNKNOWN in (each.resource_type_filter, each.pattern_type_filter, each.operation, each.permission_type):
            return _hang_up(call)
        yield
    result = DeleteAclsFilterResult(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER, ())
    return DeleteAclsResponse(0, [result] * len(request.filters))


def _hang_up(call: Call) -> NoAnswer:
    """Kafka cannot parse such a request and closes the connection."""
    call.hang_up("an ACL request names an unknown type, operation or permission")
    return NO_ANSWER
