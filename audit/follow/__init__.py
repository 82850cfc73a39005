"""Findings about a running broker, as they happen.

follower.py  streams the log with Spark, checks what is new, tells what is news
recent.py    what is remembered of each partition of the log
news.py      which findings have not been told yet
"""
