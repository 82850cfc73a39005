"""One audit, from the paths to the report.

audit.py       the steps in their order
one_pass.py    the usual way: a Spark task decodes, derives and checks a log folder while its tables are in memory
progress.py    what the audit is doing, shown on a terminal

Without Spark:

in_process.py  decodes, derives and checks small logs in this process
in_a_test.py   the same over what a test has left in a broker, with findings as objects
"""
