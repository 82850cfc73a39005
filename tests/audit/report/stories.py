"""What the examples tell: a night with trouble of every kind, and a cluster with ten thousand groups."""

from __future__ import annotations

from tests.audit.report.example import MINUTE_MS, START_MS, Example

EVIL = "evil\x1b[31m\u202eknab\u2066\u200b"  # escapes of a terminal, marks that turn the direction of writing


def a_troubled_night(seed: int = 6) -> Example:
    """Eight groups with something to see each."""
    night = Example(seed)
    orders = {"orders": 12, "refunds": 4}
    night.generations(
        "orders-billing", orders, rebalances=64, members=5, assignor="range", storm=range(30, 52), prefix="billing"
    )
    night.commits(
        "orders-billing", orders, count=160, minutes=700, rewinds=[(3, 90, 180_000), (3, 120, 20_000), (5, 40, 60_000)]
    )
    payments = {"payments": 9}
    night.generations(
        "payments-settlement", payments, rebalances=14, members=3, assignor="cooperative-sticky", prefix="settlement"
    )
    night.commits("payments-settlement", payments, count=80, minutes=300)
    clicks = {"clickstream.web.eu-west-1.enriched.v3": 40, "clickstream.app.eu-west-1.enriched.v3": 24}
    name = "clickstream-enrichment-eu-west-1-production-blue-consumer-group-of-the-personalisation-team"
    night.generations(name, clicks, rebalances=420, members=30, assignor="sticky", prefix="enricher")
    night.commits(name, clicks, count=30, minutes=800)
    night.generations(
        "fraud-scoring", {"transactions": 6}, rebalances=5, members=6, assignor="roundrobin", headers=False
    )
    night.commits("fraud-scoring", {"transactions": 6}, count=60, minutes=90)
    night.commits("reporting-nightly", {"ledger": 3}, count=1, minutes=1)
    night.generations("<script>alert(1)</script>&amp;", {"t": 1}, rebalances=1, members=1)
    night.generations(EVIL, {"u": 1}, rebalances=1, members=1)
    night.commits("idle-but-committing", {"heartbeats": 2}, count=400, minutes=1440)
    night.finding(
        "offset_rewind",
        "critical",
        "orders-3 went back by 180,000 records and was not regained within 30 minutes.",
        minute=394,
        group_id="orders-billing",
        topic="orders",
        partition=3,
    )
    night.finding(
        "offset_rewind",
        "critical",
        "orders-5 went back by 60,000 records.",
        minute=175,
        group_id="orders-billing",
        topic="orders",
        partition=5,
    )
    night.finding(
        "rebalance_storm",
        "error",
        "22 rebalances within 3 minutes: billing-… came and went.",
        minute=600,
        group_id="orders-billing",
        generation=31,
        value=22.0,
        until=START_MS + 603 * MINUTE_MS,
    )
    night.finding(
        "avoidable_moves",
        "warning",
        "11 of 16 moves were not needed for balance.",
        minute=610,
        group_id="orders-billing",
        generation=40,
        value=11.0,
    )
    night.finding(
        "crc_mismatch", "critical", "A batch of 4,096 bytes does not match its checksum.", minute=20, log_offset=20_000
    )
    for generation in range(100, 130):
        night.finding(
            "imbalance",
            "warning",
            f"Generation {generation} gives one member 4 partitions and another 1.",
            minute=generation * 22.0,
            group_id=name,
            generation=generation,
        )
    night.finding(
        "idle_members", "info", "One of 7 members has no partition.", minute=30, group_id="fraud-scoring", generation=3
    )
    night.log(50, damaged=True)
    for check, severity, found in (
        ("offset_rewind", "critical", 2),
        ("crc_mismatch", "critical", 1),
        ("rebalance_storm", "error", 1),
        ("avoidable_moves", "warning", 1),
        ("imbalance", "warning", 30),
        ("idle_members", "info", 1),
    ):
        night.result(check, "found", severity, found, threshold="10")
    for check in (
        "torn_tail",
        "two_owners",
        "stall",
        "commit_gap",
        "topic_recreated",
        "offset_jump",
        "orphaned_offsets",
    ):
        night.result(check, "clean", "warning")
    night.result("state_differs_from_broker", "not evaluable", "critical", reason="no broker was named with --baseline")
    night.result("rebalance_longer_than_timeout", "clean", "warning")
    night.result(
        "rebalance_longer_than_timeout",
        "not evaluable",
        "warning",
        group_id="fraud-scoring",
        reason="the log does not say when its rebalances began",
    )
    return night


def many_groups(count: int = 10_000, seed: int = 7) -> Example:
    """As many groups as a large cluster has, a few in trouble."""
    many = Example(seed)
    for number in range(count):
        group_id = f"service-{number % 977:03}-{('ingest', 'billing', 'search', 'mail')[number % 4]}-{number:05}"
        if number % 400 == 0:
            many.generations(group_id, {"events": 6}, rebalances=12, assignor="range")
            many.commits(group_id, {"events": 6}, count=20, minutes=200, rewinds=[(1, 9, 4_000)])
            many.finding(
                "offset_rewind",
                "error",
                "events-1 went back by 4,000 records.",
                minute=number / 30,
                group_id=group_id,
                topic="events",
                partition=1,
            )
        else:
            many.add(
                "partition_facts",
                group_id=group_id,
                topic="events",
                partition=0,
                log_partition=number % 50,
                commits=many.random.randint(1, 900),
                tombstones=0,
                first_time=START_MS,
                last_time=START_MS + 1000,
                first_offset=1,
                last_offset=2,
                max_offset=2,
                rewinds=0,
            )
    many.log(50)
    many.result("offset_rewind", "found", "error", count // 400)
    return many
