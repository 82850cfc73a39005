"""`kohort topics`: list, create, describe and delete topics of a running broker, Kohort or Apache Kafka."""

from __future__ import annotations

import argparse
import base64
import json
from collections.abc import Sequence
from typing import Any

from kohort.broker.commands.common import add_action, option, with_cluster
from kohort.broker.terminal import complain, table
from kohort.client import ask
from kohort.client.answers import NOT_ALLOWED, error_name
from kohort.client.cluster import Cluster
from kohort.printable import printable
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kohort.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kohort.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kohort.protocol.messages.metadata import MetadataResponseTopic
from kohort.protocol.wire import NO_UUID

TOPIC = 2
SET_ON_THE_TOPIC = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    add_action(actions, "list", "list the names of all topics", with_cluster(_list))
    created = add_action(actions, "create", "create a topic", with_cluster(_create))
    created.add_argument("topic", metavar="TOPIC")
    created.add_argument("--partitions", type=int, default=-1, metavar="N", help="default: the broker's num.partitions")
    created.add_argument(
        "--config", action="append", type=option(_parse_config), default=[], metavar="KEY=VALUE",
        help="a setting of the topic, for instance cleanup.policy=compact; may be given several times",
    )  # fmt: skip
    described = add_action(
        actions, "describe", "show partitions, offsets and settings of topics", with_cluster(_describe)
    )
    described.add_argument("topic", nargs="*", metavar="TOPIC", help="default: all topics")
    deleted = add_action(actions, "delete", "delete topics, with their records", with_cluster(_delete))
    deleted.add_argument("topic", nargs="+", metavar="TOPIC")


def _parse_config(text: str) -> CreatableTopicConfig:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise ValueError(f"{text!r} is not KEY=VALUE")
    return CreatableTopicConfig(name, value)


def _list(cluster: Cluster, options: argparse.Namespace) -> int:
    names = sorted(topic.name or "" for topic in _metadata(cluster, None))
    print(json.dumps(names) + "\n" if options.json else "".join(f"{printable(name)}\n" for name in names), end="")
    return 0


def _create(cluster: Cluster, options: argparse.Namespace) -> int:
    wanted = CreatableTopic(options.topic, options.partitions, -1, (), options.config)
    answer = cluster.controller().send(ApiKey.CREATE_TOPICS, CreateTopicsRequest([wanted], 30_000))
    return _report([(each.name, each.error_code, each.error_message) for each in answer.topics], "created", options)


def _delete(cluster: Cluster, options: argparse.Namespace) -> int:
    states = [DeleteTopicState(name, NO_UUID) for name in options.topic]
    answer = cluster.controller().send(ApiKey.DELETE_TOPICS, DeleteTopicsRequest(states, options.topic, 30_000))
    return _report([(each.name, each.error_code, each.error_message) for each in answer.responses], "deleted", options)


def _describe(cluster: Cluster, options: argparse.Namespace) -> int:
    found = _metadata(cluster, options.topic or None)
    missing = [(topic.name, topic.error_code, _why_not_shown(topic)) for topic in found if topic.error_code]
    shown = [
        _description(cluster, topic) for topic in sorted(found, key=lambda t: t.name or "") if not topic.error_code
    ]
    if options.json:
        print(json.dumps(shown, indent=2))
    else:
        for topic in shown:
            configs = ", ".join(f"{name}={value}" for name, value in topic["configs"].items()) or "none of its own"
            print(printable(f"{topic['name']}  id {topic['id']}  settings: {configs}"))
            rows = [(p["partition"], p["leader"], p["start_offset"], p["end_offset"]) for p in topic["partitions"]]
            print(table(("partition", "leader", "start offset", "end offset"), rows))
    return _report(missing, "", options) if missing else 0


def _why_not_shown(topic: MetadataResponseTopic) -> str | None:
    if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return "there is no such topic"
    return NOT_ALLOWED.get(topic.error_code)


def _description(cluster: Cluster, topic: MetadataResponseTopic) -> dict[str, Any]:
    partitions = sorted(topic.partitions, key=lambda p: p.partition_index)
    name = topic.name or ""
    places = [(name, p.partition_index) for p in partitions]
    starts, ends = (ask.offsets_at(cluster, places, which) for which in (ask.EARLIEST, ask.LATEST))
    described = cluster.send(
        ApiKey.DESCRIBE_CONFIGS, DescribeConfigsRequest([DescribeConfigsResource(TOPIC, topic.name or "", None)])
    )
    own = {c.name: c.value for r in described.results for c in r.configs if c.config_source == SET_ON_THE_TOPIC}
    return {
        "name": topic.name,
        "id": base64.urlsafe_b64encode(topic.topic_id).decode().rstrip("="),
        "internal": topic.is_internal,
        "configs": own,
        "partitions": [
            {
                "partition": p.partition_index,
                "leader": p.leader_id,
                "start_offset": starts.get((name, p.partition_index)),
                "end_offset": ends.get((name, p.partition_index)),
            }
            for p in partitions
        ],
    }


def _metadata(cluster: Cluster, names: list[str] | None) -> list[MetadataResponseTopic]:
    return list(cluster.metadata(names).topics)


def _report(results: Sequence[tuple[str | None, int, str | None]], done: str, options: argparse.Namespace) -> int:
    if options.json:
        print(json.dumps([{"topic": name, "error": error_name(code), "message": text} for name, code, text in results]))
    for name, code, text in results:
        if code:
            complain(f"{name}: {text or error_name(code)}")
        elif not options.json:
            print(f"{done} {name}")
    return 1 if any(code for _, code, _ in results) else 0
