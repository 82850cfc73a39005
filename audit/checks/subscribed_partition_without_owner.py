"""Partitions that a group wants and nobody reads."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.functions import broadcast, expr

from audit.baseline import BASELINE_PARTITIONS
from audit.checks.kit.check import ERROR, HISTORY, PARTITION_COUNTS, Check, Limits, duration, findings, times
from audit.checks.kit.tables import Tables
from audit.tables import MEMBER_ASSIGNMENTS, OWNERSHIP_INTERVALS, PARTITION_FACTS

CHECK = Check(
    "subscribed_partition_without_owner",
    ERROR,
    "Partitions of a topic that members of a classic group subscribe to, and that none of them got.",
    "Nobody reads these partitions: look at the assignor, at members that run different versions of it, and at"
    " assignments made by hand.",
    {"seconds": 60},
    needs=(HISTORY, PARTITION_COUNTS),
)


def find(tables: Tables, limits: Limits) -> DataFrame:
    """A cooperative rebalance leaves partitions without owner for a generation, so only lasting ones count.

    Most generations assign as many partitions as their group knows; only the others are looked at closely.
    """
    known = _known_partitions(tables)
    of_group = (
        tables[PARTITION_FACTS.name].select("group_id", "topic").distinct().join(known, "topic").groupBy("group_id")
    )
    suspects = (
        tables.generations.where(f"group_type = 'classic' AND in_force_s >= {limits['seconds']}")
        .join(of_group.agg(expr("count(*) AS wanted")), "group_id")
        .where("partition_count < wanted")
        .select("log_partition", "log_offset", "group_id", "generation", "time", "until", "in_force_s")
    )
    wanted = (
        tables[MEMBER_ASSIGNMENTS.name]
        .where("group_type = 'classic' AND subscribed_topics IS NOT NULL")
        .select("log_partition", "log_offset", "subscribed_topics")
        .join(broadcast(suspects), ["log_partition", "log_offset"])
        .withColumn("topic", expr("explode(subscribed_topics)"))
        .drop("subscribed_topics")
        .distinct()
        .join(known, "topic")
        .where("known_since IS NULL OR known_since <= time")
    )
    owned = tables[OWNERSHIP_INTERVALS.name].selectExpr(
        "group_id", "topic", "partition", "start_log_offset", "coalesce(end_log_offset, 9223372036854775807) AS ends"
    )
    same = [wanted[name] == owned[name] for name in ("group_id", "topic", "partition")]
    then = (wanted["log_offset"] >= owned["start_log_offset"]) & (wanted["log_offset"] < owned["ends"])
    unread = (
        wanted.join(owned, [*same, then], "left_anti")
        .groupBy("log_partition", "group_id", "topic")
        .agg(
            expr("count(DISTINCT partition) AS n"),
            expr("max(in_force_s) AS longest"),
            expr(
                "min_by(struct(log_offset, time, until, generation, partition), struct(log_offset, partition)) AS first"
            ),
        )
    )
    return findings(
        CHECK,
        unread,
        group_id="group_id",
        topic="topic",
        partition="first.partition",
        generation="first.generation",
        log_partition="log_partition",
        log_offset="first.log_offset",
        time="first.time",
        until="first.until",
        value="longest",
        message=f"concat({times('n', 'partition')}, ' of ', topic, ' had no owner, for up to ', {duration('longest')},"
        " '; first ', topic, '-', first.partition, ' in generation ', first.generation)",
    )


def _known_partitions(tables: Tables) -> DataFrame:
    """topic, partition, known_since: the broker's answer if there is one, else what anybody has owned or committed."""
    if BASELINE_PARTITIONS in tables:
        return tables[BASELINE_PARTITIONS].selectExpr("topic", "partition", "CAST(NULL AS timestamp) AS known_since")
    committed = tables[PARTITION_FACTS.name].selectExpr("topic", "partition", "first_time AS time")
    owned = tables[OWNERSHIP_INTERVALS.name].selectExpr("topic", "partition", "start_time AS time")
    return committed.unionAll(owned).groupBy("topic", "partition").agg(expr("min(time) AS known_since"))
