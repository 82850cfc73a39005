"""Spark: how it is started, what runs in its tasks, and the data source "kohort_log".

session.py    the Spark session of an audit
jvm.py        starts the JVM that Spark runs in
jvm_cache.py  makes later starts of the JVM quicker
tasks.py      calls a function for many items, in Spark tasks
packing.py    work of different sizes, packed for tasks of about the same length
arrow.py      mapInArrow on a machine without pandas
source.py     the data source "kohort_log": log folders as tables, in batch and as a stream
"""
