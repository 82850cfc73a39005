"""`kohort record`: copies `__consumer_offsets` of a cluster, batch for batch, and follows it.

Read in this order:

    copied.py     the copy of one partition: what comes next, gaps, truncation
    leader.py     a thread for each broker that leads partitions: fetches them and hands them on
    follower.py   who leads what; everything that is not about one leader
    recorder.py   the folders, and their syncs
    limits.py     --max-rate
    progress.py   what people see meanwhile (metrics.py: what Prometheus sees)

The copy only reads: it joins no group and commits nothing. It fetches up to the high watermark, as consumers do.
What it has written is what the cluster's log has: a batch is never changed, and if a new leader has another history
than the copy, because an unclean election has lost records, the copy is truncated as a replica would be.
"""
