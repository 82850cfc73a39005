"""What the checks share: what a check is, how it says what it found, and the passes over big tables.

check.py          a check: name, severity, thresholds, advice; findings in their common form
tables.py         the tables, and what several checks need of them, worked out once
row_rules.py      rules about single rows of a big table: one pass for all of them
commit_rules.py   that pass over commit_steps
rebalance_rules.py  and over rebalances
evaluable.py      which check cannot be evaluated for whom, and why
"""
