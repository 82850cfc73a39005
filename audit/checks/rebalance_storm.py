"""One rebalance after the other: the group does little else."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.functions import expr

from audit.checks.kit.check import ERROR, HISTORY, Check, Limits, duration, findings, seconds
from audit.checks.kit.tables import Tables
from audit.tables import REBALANCES

CHECK = Check(
    "rebalance_storm",
    ERROR,
    "Many rebalances of a group in a short time, and who came and went.",
    "Look at the members named first: crashes, session timeouts, long processing between polls; static membership"
    " (group.instance.id) and cooperative-sticky make restarts cheaper.",
    {"rebalances": 6, "minutes": 10},
    needs=(HISTORY,),
)
IN_GROUP = "OVER (PARTITION BY group_id ORDER BY log_offset"
UUID = "-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
MAX_NAMES = 3
MAX_COUNTED = 1_000  # comings and goings of one storm that are told apart


def find(tables: Tables, limits: Limits) -> DataFrame:
    """A rebalance is part of a storm if it is one of so many within the time. Storms end with as much time of quiet."""
    many, time_s = int(limits["rebalances"]), limits["minutes"] * 60
    marked = (
        tables[REBALANCES.name]
        .selectExpr(
            "*",
            f"{seconds('time', f'lag(time, {many - 1}) {IN_GROUP})')} <= {time_s} AS ends_one",
            f"{seconds('time', f'lag(time) {IN_GROUP})')} > {time_s} AS after_quiet",
        )
        .selectExpr(
            "*",
            f"bool_or(ends_one) {IN_GROUP} ROWS BETWEEN CURRENT ROW AND {many - 1} FOLLOWING) AS stormy",
            f"count_if(after_quiet) {IN_GROUP}) AS stretch",
        )
    )
    storms = (
        marked.where("stormy")
        .groupBy("log_partition", "group_id", "stretch")
        .agg(
            expr("count(*) AS n"),
            expr("min_by(struct(log_offset, time, generation), log_offset) AS first"),
            expr("max(time) AS last_time"),
            expr(f"slice(flatten(collect_list(concat(joined, left))), 1, {MAX_COUNTED}) AS moves"),
            expr("array_join(slice(collect_set(cause), 1, 3), ', ') AS causes"),
        )
        .selectExpr("*", f"transform(moves, id -> regexp_replace(id, '{UUID}', '')) AS names")
        .selectExpr(
            "*",
            "transform(array_distinct(names), name -> named_struct('n', size(filter(names, other -> other = name)),"
            " 'name', name)) AS counted",
        )
        .selectExpr("*", f"slice(sort_array(counted, false), 1, {MAX_NAMES}) AS top")
    )
    return findings(
        CHECK,
        storms,
        group_id="group_id",
        member_id="if(size(top) = 1, moves[0], NULL)",
        generation="first.generation",
        log_partition="log_partition",
        log_offset="first.log_offset",
        time="first.time",
        until="last_time",
        value="n",
        message=f"concat(n, ' rebalances in ', {duration(seconds('last_time', 'first.time'))},"
        " if(size(top) > 0, concat('; came and went: ',"
        " array_join(transform(top, one -> concat(one.name, ' (', one.n, ' times)')), ', ')), ''),"
        " if(causes = '', '', concat('; ', causes)))",
    )
