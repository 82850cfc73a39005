"""Microseconds per message: our codecs against kafka-python's compiled ones, in the same run.

    .venv/bin/python -m benchmarks.codec

Both sides get what they are best at: kafka-python's compiled function is called directly, on its own objects, without
the header handling around it. Best of several rounds, since the machine may be busy.
"""

from __future__ import annotations

import importlib
import timeit
import warnings
from collections.abc import Callable
from typing import Any

warnings.filterwarnings("ignore", category=DeprecationWarning)  # kafka-python's, at import

from kafka.protocol import api_message  # noqa: E402
from kafka.protocol.schemas.fields.codecs.encode_buffer import EncodeBufferPool  # noqa: E402

MEMBER = "consumer-orders-1-5d2f1c1e-8d57-4a8e-9a3e-1f6a7f0c9d11"
METADATA = bytes(120)


def _offset_commit(count: int) -> dict[str, Any]:
    partitions = [
        {
            "partition_index": i,
            "committed_offset": 10_000_000_000 + i,
            "committed_leader_epoch": 3,
            "committed_metadata": "",
        }
        for i in range(count)
    ]
    return {
        "group_id": "orders",
        "generation_id_or_member_epoch": 7,
        "member_id": MEMBER,
        "group_instance_id": None,
        "topics": [{"name": "payments", "partitions": partitions}],
    }


def _messages() -> list[tuple[str, str, int, dict[str, Any]]]:
    """(label, schema name, version, values)"""
    protocols = [{"name": name, "metadata": METADATA} for name in ("range", "cooperative-sticky")]
    members = [{"member_id": f"{MEMBER}{i}", "group_instance_id": None, "metadata": METADATA} for i in range(10)]
    assignments = [{"member_id": f"{MEMBER}{i}", "assignment": METADATA} for i in range(10)]
    rows: list[tuple[str, str, int, dict[str, Any]]] = [
        ("Heartbeat v4 request", "HeartbeatRequest", 4,
         {"group_id": "orders", "generation_id": 7, "member_id": MEMBER, "group_instance_id": None}),
        ("Heartbeat v4 response", "HeartbeatResponse", 4, {"throttle_time_ms": 0, "error_code": 0}),
        ("JoinGroup v9 request", "JoinGroupRequest", 9,
         {"group_id": "orders", "session_timeout_ms": 45000, "rebalance_timeout_ms": 300000, "member_id": MEMBER,
          "group_instance_id": None, "protocol_type": "consumer", "protocols": protocols, "reason": "rebalance"}),
        ("JoinGroup v9 response x 10 members", "JoinGroupResponse", 9,
         {"throttle_time_ms": 0, "error_code": 0, "generation_id": 7, "protocol_type": "consumer",
          "protocol_name": "range", "leader": MEMBER, "skip_assignment": False, "member_id": MEMBER, "members": members}),
        ("SyncGroup v5 request x 10 members", "SyncGroupRequest", 5,
         {"group_id": "orders", "generation_id": 7, "member_id": MEMBER, "group_instance_id": None,
          "protocol_type": "consumer", "protocol_name": "range", "assignments": assignments}),
        ("SyncGroup v5 response", "SyncGroupResponse", 5,
         {"throttle_time_ms": 0, "error_code": 0, "protocol_type": "consumer", "protocol_name": "range",
          "assignment": METADATA}),
    ]  # fmt: skip
    for count in (1, 10, 100):
        rows.append((f"OffsetCommit v9 x {count} request", "OffsetCommitRequest", 9, _offset_commit(count)))
        answers = [{"partition_index": i, "error_code": 0} for i in range(count)]
        topics = [{"name": "payments", "partitions": answers}]
        values = {"throttle_time_ms": 0, "topics": topics}
        rows.append((f"OffsetCommit v9 x {count} response", "OffsetCommitResponse", 9, values))
    return rows + _large_messages()


def _large_messages() -> list[tuple[str, str, int, dict[str, Any]]]:
    topic = bytes(range(16))
    indexes = list(range(100))
    offsets = [
        {"partition_index": i, "committed_offset": 10_000_000_000 + i, "committed_leader_epoch": 3, "metadata": "",
         "error_code": 0} for i in indexes]  # fmt: skip
    metadata_partitions = [
        {"error_code": 0, "partition_index": 0, "leader_id": 1, "leader_epoch": 0, "replica_nodes": [1], "isr_nodes": [1],
         "offline_replicas": []}]  # fmt: skip
    topics = [
        {"error_code": 0, "name": f"topic-{i}", "topic_id": topic, "is_internal": False, "partitions": metadata_partitions,
         "topic_authorized_operations": -2147483648} for i in indexes]  # fmt: skip
    fetch = [
        {"partition": i, "current_leader_epoch": 0, "fetch_offset": 10_000_000_000, "last_fetched_epoch": -1,
         "log_start_offset": -1, "partition_max_bytes": 1048576} for i in indexes]  # fmt: skip
    fetched = [
        {"partition_index": i, "error_code": 0, "high_watermark": 10_000_000_000, "last_stable_offset": 10_000_000_000,
         "log_start_offset": 0, "aborted_transactions": None, "preferred_read_replica": -1, "records": b""}
        for i in indexes]  # fmt: skip
    return [
        ("OffsetFetch v9 x 100 request", "OffsetFetchRequest", 9,
         {"groups": [{"group_id": "orders", "member_id": MEMBER, "member_epoch": 7,
                      "topics": [{"name": "payments", "partition_indexes": indexes}]}], "require_stable": True}),
        ("OffsetFetch v9 x 100 response", "OffsetFetchResponse", 9,
         {"throttle_time_ms": 0, "groups": [{"group_id": "orders", "topics": [{"name": "payments", "partitions": offsets}],
                                             "error_code": 0}]}),
        ("Metadata v12 x 100 topics request", "MetadataRequest", 12,
         {"topics": [{"topic_id": bytes(16), "name": f"topic-{i}"} for i in indexes],
          "allow_auto_topic_creation": True, "include_topic_authorized_operations": False}),
        ("Metadata v12 x 100 topics response", "MetadataResponse", 12,
         {"throttle_time_ms": 0, "brokers": [{"node_id": 1, "host": "localhost", "port": 9092, "rack": None}],
          "cluster_id": "kohort", "controller_id": 1, "topics": topics}),
        ("Fetch v13 x 100 request", "FetchRequest", 13,
         {"replica_id": -1, "max_wait_ms": 500, "min_bytes": 1, "max_bytes": 52428800, "isolation_level": 0, "session_id": 0,
          "session_epoch": -1, "topics": [{"topic_id": topic, "partitions": fetch}], "forgotten_topics_data": [],
          "rack_id": ""}),
        ("Fetch v13 x 100 response", "FetchResponse", 13,
         {"throttle_time_ms": 0, "error_code": 0, "session_id": 0, "responses": [{"topic_id": topic, "partitions": fetched}]}),
    ]  # fmt: skip


def _best_us(calls: list[Callable[[], Any]], rounds: int = 25) -> list[float]:
    """The best round of each, taken in turns so that a busy machine hurts all of them alike."""
    timers = [timeit.Timer(call) for call in calls]
    numbers = [max(1, timer.autorange()[0] // 8) for timer in timers]
    best = [float("inf")] * len(calls)
    for _ in range(rounds):
        for i, timer in enumerate(timers):
            best[i] = min(best[i], timer.timeit(numbers[i]) / numbers[i] * 1e6)
    return best


def _theirs(name: str, version: int, data: bytes) -> tuple[Callable[[], Any], Callable[[], Any]]:
    message_class = _kafka_python_class(name)
    struct, view = message_class._struct, memoryview(data)
    flexible = message_class.flexible_version_q(version)
    decode = struct.compiled_decode_from(version, compact=flexible, tagged=flexible, data_class=message_class[None])
    encode = struct.compiled_encode_into(version, compact=flexible, tagged=flexible)
    message = decode(view, 0)[0]

    def pack() -> Any:
        with EncodeBufferPool.acquire() as out:
            encode(message, out)
            return out.result()

    assert bytes(pack()) == data, name
    return lambda: decode(view, 0), pack


def _kafka_python_class(name: str) -> Any:
    for module in ("consumer", "metadata", "producer", "admin"):
        found = getattr(importlib.import_module(f"kafka.protocol.{module}"), name, None)
        if found is not None:
            return found
    raise LookupError(name, api_message)


def _ours(name: str, version: int, values: dict[str, Any]) -> tuple[bytes, Callable[[], Any], Callable[[], Any]]:
    from tests.protocol.random_messages import kinds

    kind = next(kind for kind in kinds() if kind.name == name)
    message = kind.build(values)
    module = importlib.import_module(f"kohort.protocol.messages.{kind.module}")
    encode = getattr(module, f"encode_{kind.part}")[version]
    decode = getattr(module, f"decode_{kind.part}")[version]
    if isinstance(encode(message), list):
        parts = encode
        encode = lambda message: b"".join(parts(message))  # noqa: E731
    data = encode(message)
    return data, lambda: decode(data), lambda: encode(message)


def main() -> None:
    print("| message | decode µs | kafka-python | ratio | encode µs | kafka-python | ratio |")
    print("|---|---|---|---|---|---|---|")
    ratios = []
    for label, name, version, values in _messages():
        data, decode, encode = _ours(name, version, values)
        their_decode, their_encode = _theirs(name, version, data)
        times = _best_us([decode, their_decode, encode, their_encode])
        ratios.append((times[1] / times[0], times[3] / times[2]))
        cells = f"{times[0]:.2f} | {times[1]:.2f} | {times[1] / times[0]:.1f} x | {times[2]:.2f} | {times[3]:.2f} | {times[3] / times[2]:.1f} x"
        print(f"| {label} | {cells} |", flush=True)
    print(f"\nleast ratios: decode {min(r[0] for r in ratios):.2f}, encode {min(r[1] for r in ratios):.2f}")


if __name__ == "__main__":
    main()
