"""One audit, from the paths to the report.

audit.py     the steps in their order
one_pass.py  the usual way: a Spark task decodes, derives and checks a log folder while its tables are in memory
progress.py  what the audit is doing, shown on a terminal
"""
