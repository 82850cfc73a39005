"""What the checks have in common.

check.py      what a check is, and the form of findings
part.py       one partition of the log: its tables, and views that several checks use
steps.py      commits as numpy columns
share.py      states of share groups as numpy columns
intervals.py  ownership intervals by group and partition
world.py      facts about the log as a whole
baseline.py   what a running broker says about its groups and topics
summary.py    figures of a log partition, to compare it with others
gather.py     many bad rows -> one finding per group and partition
evaluable.py  which check cannot be evaluated for which group, and why
words.py      counts and durations in words
"""
