"""Offsets that should have expired."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.functions import expr

from audit.checks.kit.check import WARNING, Check, Limits, duration, findings, seconds, times
from audit.checks.kit.tables import Tables
from audit.tables import GROUP_GENERATIONS, MEMBER_ASSIGNMENTS, OWNERSHIP_INTERVALS, PARTITION_FACTS

CHECK = Check(
    "orphaned_offsets",
    WARNING,
    "Offsets that are still there though their group had no use for them for longer than the retention.",
    "Delete the group, or the offsets of topics that it no longer reads; if there are many, see that the broker expires"
    " offsets (offsets.retention.minutes).",
    {"retention_hours": 7 * 24, "grace_hours": 1},
)


def find(tables: Tables, limits: Limits) -> DataFrame:
    """As KIP-211 counts: in an empty group since it became empty, in others for topics that nobody subscribes to."""
    age_s = seconds(tables.end_time, "since")
    limit_s = (limits["retention_hours"] + limits["grace_hours"]) * 3600
    offsets = tables[PARTITION_FACTS.name].where("last_offset IS NOT NULL AND owner IS NULL")
    orphans = (
        offsets.join(_last_states(tables), "group_id", "left")
        .where("empty_since IS NOT NULL OR topics IS NULL OR NOT array_contains(topics, topic)")
        .where("NOT coalesce(unknown_topics, false)")
        .selectExpr("*", "coalesce(greatest(empty_since, if(simple, last_time, NULL)), last_time) AS since")
        .where(f"{age_s} > {limit_s}")
        .groupBy("log_partition", "group_id")
        .agg(
            expr("count(*) AS n"),
            expr("min_by(struct(topic, partition, since, last_offset), struct(since, topic, partition)) AS oldest"),
        )
    )
    return findings(
        CHECK,
        orphans,
        group_id="group_id",
        topic="oldest.topic",
        partition="oldest.partition",
        log_partition="log_partition",
        time="oldest.since",
        value=seconds(tables.end_time, "oldest.since"),
        message=f"concat({times('n', 'offset')}, ' without use, such as ', oldest.topic, '-', oldest.partition,"
        f" ' for ', {duration(seconds(tables.end_time, 'oldest.since'))})",
    )


def _last_states(tables: Tables) -> DataFrame:
    """Per group: `empty_since` if it has no members, `simple` if it never had, and the `topics` that members want."""
    last = (
        tables[GROUP_GENERATIONS.name]
        .where("record_type IN (2, 3, 11)")
        .groupBy("group_id")
        .agg(expr("max_by(struct(log_partition, log_offset, record_time, record_type, tombstone, member_count,"
                    " state_time, generation), log_offset) AS last"))
        .selectExpr("group_id", "last.*")
    )  # fmt: skip
    wanted = (
        tables[MEMBER_ASSIGNMENTS.name]
        .where("record_type IN (2, 5) AND NOT tombstone")
        .selectExpr(
            "group_id", "record_type AS its_type", "log_offset AS its_offset", "subscribed_topics", "subscribed_regex"
        )
    )
    alive = tables[OWNERSHIP_INTERVALS.name].where("end_log_offset IS NULL").select("group_id").distinct()
    topics = (
        last.join(wanted, "group_id")
        .where("(its_type = 2 AND its_offset = log_offset AND record_type = 2) OR (its_type = 5 AND record_type = 3)")
        .groupBy("group_id")
        .agg(
            expr("array_distinct(flatten(collect_list(subscribed_topics))) AS topics"),
            expr("bool_or(subscribed_topics IS NULL OR coalesce(subscribed_regex, '') <> '') AS unknown_topics"),
        )
    )
    empty = "tombstone OR (record_type = 2 AND member_count = 0) OR (record_type = 3 AND NOT alive)"
    return (
        last.join(alive.selectExpr("group_id", "true AS alive"), "group_id", "left")
        .selectExpr("*", "coalesce(alive, false) AS has_owner")
        .drop("alive")
        .withColumnRenamed("has_owner", "alive")
        .selectExpr(
            "group_id",
            f"if({empty}, coalesce(state_time, record_time), NULL) AS empty_since",
            f"({empty}) AND (tombstone OR generation = 0) AS simple",
        )
        .join(topics, "group_id", "left")
    )
