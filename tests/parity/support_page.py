"""Writes the tables of docs/protocol-support.md from the code: `python -m tests.parity.support_page`.

A test compares the page with what this would write, so the page cannot say what the broker does not do.
"""

from __future__ import annotations

from pathlib import Path

from kohort.broker.api_table import ApiTable
from kohort.broker.unserved import GAPS
from kohort.protocol.api_keys import APIS
from tests.parity.differences import ALLOWED, OPTIONAL, Kind

PAGE = Path(__file__).parent.parent.parent / "docs" / "protocol-support.md"

# What a broker of Apache Kafka 4.3.1 announces to its clients: key -> name, lowest and highest version.
KAFKA_APIS = {
    0: ("Produce", 0, 13),
    1: ("Fetch", 4, 18),
    2: ("ListOffsets", 1, 11),
    3: ("Metadata", 0, 13),
    8: ("OffsetCommit", 2, 10),
    9: ("OffsetFetch", 1, 10),
    10: ("FindCoordinator", 0, 6),
    11: ("JoinGroup", 0, 9),
    12: ("Heartbeat", 0, 4),
    13: ("LeaveGroup", 0, 5),
    14: ("SyncGroup", 0, 5),
    15: ("DescribeGroups", 0, 6),
    16: ("ListGroups", 0, 5),
    17: ("SaslHandshake", 0, 1),
    18: ("ApiVersions", 0, 4),
    19: ("CreateTopics", 2, 7),
    20: ("DeleteTopics", 1, 6),
    21: ("DeleteRecords", 0, 2),
    22: ("InitProducerId", 0, 5),
    23: ("OffsetForLeaderEpoch", 2, 4),
    24: ("AddPartitionsToTxn", 0, 5),
    25: ("AddOffsetsToTxn", 0, 4),
    26: ("EndTxn", 0, 5),
    27: ("WriteTxnMarkers", 1, 2),
    28: ("TxnOffsetCommit", 0, 5),
    29: ("DescribeAcls", 1, 3),
    30: ("CreateAcls", 1, 3),
    31: ("DeleteAcls", 1, 3),
    32: ("DescribeConfigs", 1, 4),
    33: ("AlterConfigs", 0, 2),
    34: ("AlterReplicaLogDirs", 1, 2),
    35: ("DescribeLogDirs", 1, 5),
    36: ("SaslAuthenticate", 0, 2),
    37: ("CreatePartitions", 0, 3),
    38: ("CreateDelegationToken", 1, 3),
    39: ("RenewDelegationToken", 1, 2),
    40: ("ExpireDelegationToken", 1, 2),
    41: ("DescribeDelegationToken", 1, 3),
    42: ("DeleteGroups", 0, 2),
    43: ("ElectLeaders", 0, 2),
    44: ("IncrementalAlterConfigs", 0, 1),
    45: ("AlterPartitionReassignments", 0, 1),
    46: ("ListPartitionReassignments", 0, 0),
    47: ("OffsetDelete", 0, 0),
    48: ("DescribeClientQuotas", 0, 1),
    49: ("AlterClientQuotas", 0, 1),
    50: ("DescribeUserScramCredentials", 0, 0),
    51: ("AlterUserScramCredentials", 0, 0),
    55: ("DescribeQuorum", 0, 2),
    57: ("UpdateFeatures", 0, 2),
    60: ("DescribeCluster", 0, 2),
    61: ("DescribeProducers", 0, 0),
    64: ("UnregisterBroker", 0, 0),
    65: ("DescribeTransactions", 0, 0),
    66: ("ListTransactions", 0, 2),
    68: ("ConsumerGroupHeartbeat", 0, 1),
    69: ("ConsumerGroupDescribe", 0, 1),
    74: ("ListConfigResources", 0, 1),
    75: ("DescribeTopicPartitions", 0, 0),
    76: ("ShareGroupHeartbeat", 1, 1),
    77: ("ShareGroupDescribe", 1, 1),
    78: ("ShareFetch", 1, 2),
    79: ("ShareAcknowledge", 1, 2),
    80: ("AddRaftVoter", 0, 1),
    81: ("RemoveRaftVoter", 0, 0),
    83: ("InitializeShareGroupState", 0, 0),
    84: ("ReadShareGroupState", 0, 0),
    85: ("WriteShareGroupState", 0, 1),
    86: ("DeleteShareGroupState", 0, 0),
    87: ("ReadShareGroupStateSummary", 0, 1),
    88: ("StreamsGroupHeartbeat", 0, 0),
    89: ("StreamsGroupDescribe", 0, 0),
    90: ("DescribeShareGroupOffsets", 0, 1),
    91: ("AlterShareGroupOffsets", 0, 0),
    92: ("DeleteShareGroupOffsets", 0, 0),
}

WHY_NOT = {gap.what: tuple(gap.apis) for gap in GAPS}


def served_table() -> str:
    lines = ["| key | API | versions | Kafka 4.3.1 |", "|---|---|---|---|"]
    for key, low, high in ApiTable().announced():
        _, kafka_low, kafka_high = KAFKA_APIS[key]
        same = (low, high) == (kafka_low, kafka_high)
        lines.append(
            f"| {key} | {APIS[key].name} | {low}-{high} | {'the same' if same else f'{kafka_low}-{kafka_high}'} |"
        )
    return "\n".join(lines)


def missing_table() -> str:
    served = {int(key) for key, _, _ in ApiTable().announced()}
    lines = ["| why | APIs |", "|---|---|"]
    explained: set[int] = set()
    for reason, keys in WHY_NOT.items():
        left = [key for key in keys if key in KAFKA_APIS and key not in served]
        explained |= set(keys)
        if left:
            lines.append(f"| {reason} | {', '.join(f'{KAFKA_APIS[key][0]} ({key})' for key in left)} |")
    rest = sorted(set(KAFKA_APIS) - served - explained)
    if rest:
        lines.append(f"| not there yet | {', '.join(f'{KAFKA_APIS[key][0]} ({key})' for key in rest)} |")
    return "\n".join(lines)


def differences_table() -> str:
    lines = ["| API | field | may differ | in | why |", "|---|---|---|---|---|"]
    for each in ALLOWED:
        kind = "in any way" if each.kind is Kind.ANY else "in value"
        where = "all scenarios" if each.scenario == "*" else each.scenario.strip("*")
        lines.append(f"| {_all(each.api)} | `{each.field}` | {kind} | {where} | {each.reason} |")
    lines += [f"| {each.api} | `{each.field}` | may lack some | all scenarios | {each.reason} |" for each in OPTIONAL]
    return "\n".join(lines)


def _all(pattern: str) -> str:
    return "all" if pattern == "*" else pattern


def page(text: str) -> str:
    """`text` with what stands between the markers written anew."""
    tables = {"served": served_table(), "missing": missing_table(), "differences": differences_table()}
    for name, table in tables.items():
        before, start, rest = text.partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition(f"<!-- /{name} -->")
        assert start, f"{PAGE.name} has no start of the table {name!r}"
        assert end, f"{PAGE.name} has no end of the table {name!r}"
        text = f"{before}{start}{table}\n{end}{after}"
    return text


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
