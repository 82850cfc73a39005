"""Base tables -> ownership, rebalances, what-if, commit steps, facts about partitions.

records.py    rows about one group -> its records in the order of the log
history.py    these records -> who owned what when, and what each rebalance did
moves.py      how much an assignment moved, and how much of that it could have done without
what_if.py    what other assignors would have done
commits.py    visible commits, sorted by place
steps.py      each beside the one before, the owner, the generation in force
facts.py      what can be said of each partition
partition.py  all of it for one partition of the log, in Arrow

Spark runs partition.py for each partition of the log, on the files of a store (audit/store_tasks.py): in Arrow
from file to file, 1,000,000 commits take seconds; as rows through the JVM they took minutes.
"""
