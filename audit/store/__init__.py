"""The tables of audits as Parquet files, which remember what compaction has removed from the log since.

runs.py         Store and Run: what an audit does with a store
lock.py         one audit at a time, also where there are no locks
files.py        where the files lie; reads and writes them
merge.py        makes one run of many
writers.py      writes the base tables of one log folder
undecided.py    commits in transactions that were open when they were read
topic_names.py  names of topics for records that have only a topic's id
tasks.py        Spark tasks that read logs into a store and derive tables in it
check.py        Spark tasks that check the tables of a store
"""
