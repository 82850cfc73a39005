"""Which APIs are served, by which handler, and how a request of each version is read and answered.

A handler is a function `(broker, request, call) -> response`. If its work can be long, it is a generator that returns
the response (broker/steps.py). HANDLERS names its module, and behind a colon the function if that is not named like the
module. A module is imported when its first request comes, so that start-up does not pay for it. A module that takes
long to import is imported in steps: IMPORTED_FIRST names the modules to import one by one before it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from importlib import import_module
from typing import TYPE_CHECKING

from kohort.broker.clock import CLOCK
from kohort.protocol.api_keys import APIS, ApiKey
from kohort.protocol.codec import Decoder, Encoder, request_decoder, response_encoder
from kohort.protocol.consumer_group_beat import decode_heartbeat_v0, decode_heartbeat_v1
from kohort.protocol.headers import has_response_tags, is_flexible
from kohort.protocol.wire import Message

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.call import Call, Parked
    from kohort.broker.steps import Answer, WaitingSteps

Handler = Callable[["Broker", Message, "Call"], "Answer | Parked | WaitingSteps[Answer]"]

HANDLERS: dict[ApiKey, str] = {
    ApiKey.API_VERSIONS: "kohort.broker.cluster.api_versions",
    ApiKey.METADATA: "kohort.broker.cluster.metadata",
    ApiKey.FIND_COORDINATOR: "kohort.broker.cluster.find_coordinator",
    ApiKey.JOIN_GROUP: "kohort.broker.groups:join_group",
    ApiKey.SYNC_GROUP: "kohort.broker.groups:sync_group",
    ApiKey.HEARTBEAT: "kohort.broker.groups:heartbeat",
    ApiKey.LEAVE_GROUP: "kohort.broker.groups:leave_group",
    ApiKey.OFFSET_COMMIT: "kohort.broker.groups:offset_commit",
    ApiKey.OFFSET_FETCH: "kohort.broker.groups:offset_fetch",
    ApiKey.OFFSET_DELETE: "kohort.broker.groups:offset_delete",
    ApiKey.LIST_GROUPS: "kohort.broker.groups:list_groups",
    ApiKey.DESCRIBE_GROUPS: "kohort.broker.groups:describe_groups",
    ApiKey.DELETE_GROUPS: "kohort.broker.share.delete_groups",
    ApiKey.CONSUMER_GROUP_HEARTBEAT: "kohort.broker.groups:consumer_group_heartbeat",
    ApiKey.CONSUMER_GROUP_DESCRIBE: "kohort.broker.groups:consumer_group_describe",
    ApiKey.SHARE_GROUP_HEARTBEAT: "kohort.broker.groups:share_group_heartbeat",
    ApiKey.SHARE_GROUP_DESCRIBE: "kohort.broker.groups:share_group_describe",
    ApiKey.SHARE_FETCH: "kohort.broker.share.share_fetch",
    ApiKey.SHARE_ACKNOWLEDGE: "kohort.broker.share.share_acknowledge",
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: "kohort.broker.share.describe_share_group_offsets",
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: "kohort.broker.share.alter_share_group_offsets",
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: "kohort.broker.share.delete_share_group_offsets",
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: "kohort.broker.share.states:initialize_states",
    ApiKey.READ_SHARE_GROUP_STATE: "kohort.broker.share.states:read_states",
    ApiKey.WRITE_SHARE_GROUP_STATE: "kohort.broker.share.states:write_states",
    ApiKey.DELETE_SHARE_GROUP_STATE: "kohort.broker.share.states:delete_states",
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: "kohort.broker.share.states:read_summaries",
    ApiKey.DESCRIBE_CLUSTER: "kohort.broker.cluster.describe_cluster",
    ApiKey.DESCRIBE_ACLS: "kohort.broker.cluster.acls:describe_acls",
    ApiKey.CREATE_ACLS: "kohort.broker.cluster.acls:create_acls",
    ApiKey.DELETE_ACLS: "kohort.broker.cluster.acls:delete_acls",
    ApiKey.DESCRIBE_CLIENT_QUOTAS: "kohort.broker.cluster.client_quotas:describe_client_quotas",
    ApiKey.ALTER_CLIENT_QUOTAS: "kohort.broker.cluster.client_quotas:alter_client_quotas",
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: "kohort.broker.cluster.describe_user_scram_credentials",
    ApiKey.UPDATE_FEATURES: "kohort.broker.cluster.update_features",
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: "kohort.broker.cluster.describe_topic_partitions",
    ApiKey.CREATE_TOPICS: "kohort.broker.topics.create_topics",
    ApiKey.CREATE_PARTITIONS: "kohort.broker.topics.create_partitions",
    ApiKey.DELETE_TOPICS: "kohort.broker.topics.delete_topics",
    ApiKey.DESCRIBE_CONFIGS: "kohort.broker.topics.describe_configs",
    ApiKey.ALTER_CONFIGS: "kohort.broker.topics.alter_configs",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: "kohort.broker.topics.incremental_alter_configs",
    ApiKey.LIST_CONFIG_RESOURCES: "kohort.broker.topics.list_config_resources",
    ApiKey.PRODUCE: "kohort.broker.topics.produce",
    ApiKey.FETCH: "kohort.broker.topics.fetch",
    ApiKey.LIST_OFFSETS: "kohort.broker.topics.list_offsets",
    ApiKey.INIT_PRODUCER_ID: "kohort.broker.topics.init_producer_id",
    ApiKey.ADD_PARTITIONS_TO_TXN: "kohort.broker.transactions.add_partitions_to_txn",
    ApiKey.ADD_OFFSETS_TO_TXN: "kohort.broker.transactions.add_offsets_to_txn",
    ApiKey.END_TXN: "kohort.broker.transactions.end_txn",
    ApiKey.WRITE_TXN_MARKERS: "kohort.broker.topics.write_txn_markers",
    ApiKey.TXN_OFFSET_COMMIT: "kohort.broker.transactions.txn_offset_commit",
    ApiKey.DESCRIBE_PRODUCERS: "kohort.broker.topics.describe_producers",
    ApiKey.DESCRIBE_TRANSACTIONS: "kohort.broker.transactions.describe_transactions",
    ApiKey.LIST_TRANSACTIONS: "kohort.broker.transactions.list_transactions",
    ApiKey.OFFSET_FOR_LEADER_EPOCH: "kohort.broker.topics.offset_for_leader_epoch",
    ApiKey.DELETE_RECORDS: "kohort.broker.topics.delete_records",
    ApiKey.DESCRIBE_LOG_DIRS: "kohort.broker.topics.describe_log_dirs",
    ApiKey.ELECT_LEADERS: "kohort.broker.topics.elect_leaders",
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: "kohort.broker.topics.alter_partition_reassignments",
    ApiKey.LIST_PARTITION_REASSIGNMENTS: "kohort.broker.topics.list_partition_reassignments",
}


# The modules that these need; each comes after those that it imports. One takes a few milliseconds.
IMPORTED_FIRST: dict[str, tuple[str, ...]] = {
    "kohort.broker.share.states": (
        "kohort.coordinator.share_state.batches",
        "kohort.coordinator.share_state.share_group_offset",
        "kohort.coordinator.share_state.share_shard",
        "kohort.coordinator.share_state.read_share_group_state",
        "kohort.coordinator.share_state.read_share_group_state_summary",
        "kohort.coordinator.share_state.initialize_share_group_state",
        "kohort.broker.share.state_host",
        "kohort.protocol.messages.read_share_group_state",
        "kohort.protocol.messages.write_share_group_state",
    ),
    "kohort.broker.groups": (
        "kohort.coordinator.admin.delete_groups",
        "kohort.coordinator.admin.list_groups",
        "kohort.coordinator.classic.describe_groups",
        "kohort.coordinator.classic.join_group",
        "kohort.coordinator.classic.leave_group",
        "kohort.coordinator.assignors",
        "kohort.coordinator.assignors.server_side",
        "kohort.coordinator.consumer.member",
        "kohort.protocol.consumer_group_record",
        "kohort.coordinator.consumer.records",
        "kohort.coordinator.consumer.group",
        "kohort.coordinator.consumer.target",
        "kohort.coordinator.consumer.resolve",
        "kohort.coordinator.consumer.member_update",
        "kohort.coordinator.consumer.consumer_group_describe",
        "kohort.coordinator.consumer.consumer_group_heartbeat",
        "kohort.coordinator.consumer.classic_join",
        "kohort.coordinator.conversion",
        "kohort.coordinator.share.member",
        "kohort.coordinator.share.records",
        "kohort.coordinator.share.group",
        "kohort.coordinator.share.target",
        "kohort.coordinator.share.share_group_heartbeat",
        "kohort.coordinator.share.share_group_describe",
        "kohort.coordinator.membership",
        "kohort.coordinator.offsets.offset_delete",
        "kohort.coordinator.offsets.offset_fetch",
    ),
    "kohort.broker.share.share_fetch": (
        "kohort.coordinator.delivery.window",
        "kohort.coordinator.delivery.share_partition",
        "kohort.protocol.messages.share_fetch",
        "kohort.broker.share.share_partitions",
        "kohort.broker.share.fetch_reading",
        "kohort.broker.share.sessions",
        "kohort.broker.share.acknowledging",
    ),
}

RECURRING = frozenset({  # see broker.recurring
    ApiKey.HEARTBEAT, ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.SHARE_GROUP_HEARTBEAT, ApiKey.OFFSET_FETCH,
    ApiKey.OFFSET_COMMIT,
})  # fmt: skip


class UnsupportedRequest(Exception):
    """An API that is not served, or not in that version."""

    def __init__(self, message: str, api_key: int, version: int) -> None:
        super().__init__(message)
        self.api_key = api_key
        self.version = version


class Route:
    """How requests of one API and version are read, handled and answered."""

    __slots__ = ("api_key", "decode", "encode", "flexible", "handler", "name", "recurs", "tagged", "version")

    def __init__(self, api_key: int, version: int, handler: Handler) -> None:
        self.api_key = api_key
        self.version = version
        self.name = APIS[api_key].name
        self.handler = handler
        self.decode = _decoder(api_key, version)
        self.encode = _encoder(api_key, version)
        self.flexible = is_flexible(api_key, version)
        self.tagged = has_response_tags(api_key, version)
        self.recurs = api_key in RECURRING


def _decoder(api_key: int, version: int) -> Decoder:
    if api_key == ApiKey.CONSUMER_GROUP_HEARTBEAT:
        return (decode_heartbeat_v0, decode_heartbeat_v1)[version]
    return request_decoder(api_key, version)


def _encoder(api_key: int, version: int) -> Encoder:
    if api_key == ApiKey.CONSUMER_GROUP_HEARTBEAT:
        from kohort.protocol.consumer_group_answer import encode_answer  # only brokers with such groups pay for it

        return encode_answer
    return response_encoder(api_key, version)


class ApiTable:
    def __init__(self, handlers: dict[ApiKey, str] | None = None) -> None:
        self._handlers = HANDLERS if handlers is None else handlers
        self.routes: dict[int, Route] = {}  # routes that were asked for so far, by api key << 16 | version

    def announced(self) -> list[tuple[int, int, int]]:
        """(key, lowest, highest version) of everything that is served, in the order of keys."""
        return [(key, _lowest_announced(key), APIS[key].max_version) for key in sorted(self._handlers)]

    def route(self, api_key: int, version: int) -> Route:
        """UnsupportedRequest if there is none."""
        try:
            return self.routes[api_key << 16 | version]
        except KeyError:
            return self._find(api_key, version)

    def _find(self, api_key: int, version: int) -> Route:
        api = APIS.get(api_key)
        if api is None or api.key not in self._handlers:
            raise UnsupportedRequest(f"API {api_key} is not served", api_key, version)
        if not api.min_version <= version <= api.max_version:
            raise UnsupportedRequest(
                f"{api.name} version {version} is not served, only {api.min_version} to {api.max_version}",
                api_key,
                version,
            )
        module, _, function = self._handlers[api.key].partition(":")
        function = function or module.rpartition(".")[2]
        if module in IMPORTED_FIRST and module not in sys.modules:
            route = Route(api_key, version, lambda *asked: import_and_handle(route, module, function, *asked))
        else:
            route = Route(api_key, version, getattr(import_module(module), function))
        self.routes[api_key << 16 | version] = route
        return route

    def failure_response(self, route: Route) -> Message | None:
        """An answer of this API that says UNKNOWN_SERVER_ERROR; None if its answers have no field for one error."""
        module = import_module(f"kohort.protocol.messages.{APIS[route.api_key].module}")
        response = getattr(module, f"{route.name}Response")
        return response(error_code=-1) if "error_code" in response.__slots__ else None


def import_and_handle(
    route: Route, module: str, function: str, broker: Broker, request: Message, call: Call
) -> WaitingSteps[Answer]:
    """The first request of its kind: import its handler in steps."""
    for name in IMPORTED_FIRST[module]:
        import_module(name)
        yield None
    route.handler = getattr(import_module(module), function)
    yield None
    call.now, call.steady_ms = CLOCK.now_ms(), CLOCK.steady_ms()
    answer = route.handler(broker, request, call)
    if isinstance(answer, Generator):
        answer = yield from answer
    return answer


def _lowest_announced(key: ApiKey) -> int:
    """Kafka announces Produce from 0 on and serves it from 3: older librdkafka would switch features off otherwise."""
    return 0 if key is ApiKey.PRODUCE else APIS[key].min_version
