"""Groups whose records are in a log partition where no coordinator will look for them."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.functions import expr

from audit.baseline import BASELINE_PARTITIONS
from audit.checks.kit.check import ERROR, Check, Limits, findings, times
from audit.checks.kit.tables import Tables
from audit.tables import GROUP_GENERATIONS, OTHER_RECORDS

CHECK = Check(
    "group_in_wrong_partition",
    ERROR,
    "Groups in another log partition than the hash of their id says.",
    "Their coordinator will never find them there: see whether the number of partitions of __consumer_offsets was"
    " changed, or a folder was renamed.",
    {"partitions": 50},
)
OFFSETS_TOPIC = "__consumer_offsets"

# Java's String.hashCode of the group id: over UTF-16 code units, as a signed 32-bit integer; and Kafka's abs of it.
HASH = (
    "aggregate(sequence(0, octet_length(utf16) div 2 - 1), 0L, (h, i) ->"
    " pmod(31 * h + CAST(conv(hex(substring(utf16, 2 * i + 1, 2)), 16, 10) AS bigint), 4294967296))"
)
ABS = "if(h = 2147483648, 0, if(h > 2147483648, 4294967296 - h, h))"


def find(tables: Tables, limits: Limits) -> DataFrame:
    columns = ("log_partition", "group_id", "log_offset")
    groups = (
        tables.commit_summary.select(*columns)
        .unionAll(tables[GROUP_GENERATIONS.name].select(*columns))
        .unionAll(tables[OTHER_RECORDS.name].select(*columns).where("group_id IS NOT NULL"))
        .groupBy("log_partition", "group_id")
        .agg(expr("min(log_offset) AS log_offset"))
        .selectExpr("*", "encode(group_id, 'UTF-16BE') AS utf16")
        .selectExpr("*", f"if(group_id = '', 0L, {HASH}) AS h")
        .selectExpr(*columns, f"{ABS} % {_partition_count(tables, limits)} AS home")
    )
    lost = (
        groups.where("log_partition <> home")
        .groupBy("log_partition")
        .agg(expr("count(*) AS n"), expr("min_by(struct(*), log_offset) AS first"))
    )
    return findings(
        CHECK,
        lost,
        group_id="first.group_id",
        log_partition="log_partition",
        log_offset="first.log_offset",
        value="n",
        message=f"concat({times('n', 'group')}, ' in log partition ', log_partition, ' that belong elsewhere: ',"
        " first.group_id, ' belongs in ', first.home)",
    )


def _partition_count(tables: Tables, limits: Limits) -> str:
    """As the broker says, if there is one to ask; never less than there are folders."""
    seen = max((one.log_partition + 1 for one in tables.segments), default=1)
    count = max(int(limits["partitions"]), seen)
    if BASELINE_PARTITIONS in tables:
        told = tables[BASELINE_PARTITIONS].where(f"topic = '{OFFSETS_TOPIC}'").count()
        count = max(told, seen) if told else count
    return str(count)
