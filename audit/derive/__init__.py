"""Base tables -> ownership, rebalances, what-if, commit steps, facts about partitions.

records.py    rows of the base tables about one group -> its records in the order of the log
history.py    these records -> who owned what when, and what each rebalance did
moves.py      how many partitions an assignment moved, and how many of these moves were avoidable
what_if.py    what other assignors would have done
commits.py    visible commits, sorted by group and partition
steps.py      each commit with the one before it, the owner of the partition, and the generation in force
facts.py      one row about each partition that a group committed to or owned
share_states.py   how far each share group has come with each partition, and what each record changed
share_window.py   the state of one share partition at the end of the log
share_members.py  what each member of a share group was assigned
partition.py  all of it for one partition of the log, in Arrow

Spark tasks call it for each partition of the log (see audit/pipeline.py). In Arrow, from file to file, a million
commits take seconds; as rows through the JVM they took minutes.
"""
