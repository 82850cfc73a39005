"""Questions the history in `__consumer_offsets`: who owned what when, who committed what, and what went wrong.

How it works, from the bottom up:

decode/     log files -> Arrow, vectorised; knows nothing of Spark
source.py   the Spark data source "kohort_log", batch and streaming, around decode/
tables.py   every table: its columns, their types, what they mean
derive/     base tables -> ownership, rebalances, facts about partitions
checks/     one file per rule: tables -> findings
report/     tables -> one HTML file
store.py    the tables as Parquet, which remember what compaction has removed
owners.py   who owned each partition at a moment
session.py  Spark, in a JVM of our own launch (jvm.py)
one_pass.py a log folder -> tables and findings, as Spark's tasks do it; run.py: an audit from the paths to the report
follow.py   the same as a stream, beside a running broker, with what recent.py remembers; news.py: what to tell of it
cli*.py     `kohort audit`, `kohort audit owners`, `kohort audit follow`
sample/     what `make audit` has to show

A group lives in one partition of the log, so everything about a group can be worked out where that partition is read.
"""

if __name__ != "kohort.audit":  # the repository itself is on sys.path: each module would exist twice
    raise ImportError(f"import kohort.audit, not {__name__}", name=__name__)
