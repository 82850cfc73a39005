"""What the checks share.

check.py      what a check is, and findings in their common form
words.py      counts and durations, as people write them
part.py       one partition of the log: its tables, and views that several checks use
steps.py      commits as numpy columns
intervals.py  who owned what, by place
world.py      what must be known of the log as a whole
summary.py    what a log partition amounts to, to be compared with others
gather.py     many bad rows -> one finding per place
evaluable.py  which check cannot be evaluated for whom, and why
"""
