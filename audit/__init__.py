"""Audits the history in `__consumer_offsets`: who owned what when, who committed what, and what went wrong.

A group lives in one partition of the log, so everything about a group can be worked out where that partition is read.
The progress of share groups is in `__share_group_state`, where each partition of a topic that a group reads has its
place. Those logs go through the same parts, with log partition numbers of their own (see tables.py).
The parts, in the order in which data goes through them:

    decode/   log folders -> base tables, in Arrow; no Spark
    derive/   base tables -> ownership, rebalances, what-if, steps of commits; one partition of the log at a time
    checks/   tables -> findings; one file per rule
    report/   tables and findings -> one HTML file

What brings them together:

    tables.py   every table: its columns, their types, what they mean. The contract between all parts
    pipeline.py decode -> derive -> check for one partition of the log; all of the following go through it
    store/      the tables as Parquet files, which remember what compaction has removed from the log
    spark/      Spark: the session, its JVM, and the data source "kohort_log"
    run/        `kohort audit`: one audit, from the paths to the report; and the rules without Spark, for users' tests
    owners/     `kohort audit owners`: who owned each partition of a group at a moment
    follow/     `kohort audit follow`: findings about a running broker, as they happen
    cli/        the three commands; __main__.py is the same for `python -m kohort.audit` and spark-submit
    sample/     `make audit`: breaks a group on a broker made for it, and audits what that left in the log

result.py has what is asked of an audit and what comes of it; moments.py reads and prints times.
"""

if __name__ != "kohort.audit":  # the repository itself is on sys.path: each module would exist twice
    raise ImportError(f"import kohort.audit, not {__name__}", name=__name__)
