"""What a test sees, as JSON.

Maps by topic and partition are nested: {"orders": {"0": 17}}. Keys and values of records are bytes: they are text if
they are UTF-8, and otherwise base64 under the name with `_base64`.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import datetime
from typing import TypeVar

from kohort.audit.run.in_a_test import Checked
from kohort.testing.group import Group
from kohort.testing.transaction import Transaction
from kohort.testing.views import Commit, Member, Rebalance, Record, Request, TopicPartition

Value = TypeVar("Value")
Shape = dict[str, object]


def group_shape(group: Group) -> Shape:
    return {
        "group": group.group_id,
        "type": group.type,
        "state": group.state,
        "generation": group.generation,
        "members": [member_shape(each) for each in group.members],
        "owners": by_topic(group.owners),
        "committed": by_topic(group.committed),
        "pending": by_topic(group.pending),
        "lag": by_topic(group.lag),
        "start_offsets": by_topic(group.start_offsets),
        "deliveries": [asdict(each) for each in group.deliveries],
    }


def transaction_shape(transaction: Transaction) -> Shape:
    return {
        "transactional_id": transaction.transactional_id,
        "state": transaction.state,
        "producer_id": transaction.producer_id,
        "epoch": transaction.epoch,
        "partitions": partitions_by_topic(transaction.partitions),
    }


def member_shape(member: Member) -> Shape:
    target = None if member.target is None else partitions_by_topic(member.target)
    return asdict(member) | {"assignment": partitions_by_topic(member.assignment), "target": target}


def rebalance_shape(rebalance: Rebalance) -> Shape:
    return asdict(rebalance)


def commit_shape(commit: Commit) -> Shape:
    return asdict(commit)


def request_shape(request: Request) -> Shape:
    return asdict(request)


def record_shape(record: Record) -> Shape:
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        **content_shape("key", record.key),
        **content_shape("value", record.value),
        "headers": [{"name": name, **content_shape("value", value)} for name, value in record.headers],
    }


def content_shape(name: str, content: bytes | None) -> Shape:
    if content is None:
        return {name: None}
    try:
        return {name: content.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": b64encode(content).decode()}


def checked_shape(checked: Checked) -> Shape:
    findings = [{**asdict(each), "time": _iso(each.time), "until": _iso(each.until)} for each in checked.findings]
    return {"findings": findings, "not_evaluable": dict(checked.not_evaluable), "records": checked.records}


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def by_topic(values: Mapping[TopicPartition, Value]) -> dict[str, dict[str, Value]]:
    found: dict[str, dict[str, Value]] = {}
    for (topic, partition), value in values.items():
        found.setdefault(topic, {})[str(partition)] = value
    return found


def partitions_by_topic(places: Iterable[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, partition in places:
        found.setdefault(topic, []).append(partition)
    return found
