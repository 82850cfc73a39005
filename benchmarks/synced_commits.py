"""What a commit costs that is on disk before it is answered, which is Kohort's default: CPU time of its process.

    python -m benchmarks.synced_commits [--seconds 2] [--kafka | --peer HOST:PORT --peer-pid PID]

As benchmarks.groups, whose commits are answered from the page cache. Kafka answers from the page cache here too: it has
no setting that syncs each commit alone. So the ratio says what Kohort's durability costs beside Kafka's usual one.
"""

from __future__ import annotations

from functools import partial

from benchmarks.broker import run_report
from benchmarks.groups import measure_commit, measure_commits_of_groups

SCENARIOS = (
    ("OffsetCommit, 1 partition, synced", partial(measure_commit, 1), None),
    ("OffsetCommit, 10 partitions, synced", partial(measure_commit, 10), None),
    ("OffsetCommit, 1 partition, 50 groups, synced", partial(measure_commits_of_groups, 1), 0.65),
    ("OffsetCommit, 10 partitions, 50 groups, synced", partial(measure_commits_of_groups, 10), 0.65),
)


if __name__ == "__main__":
    run_report(SCENARIOS, ["group.initial.rebalance.delay.ms=0"])
