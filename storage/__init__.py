"""Logs on disk, in Kafka's own layout: append, sync, recover, compact.

Read in this order:

    disk.py            all access to the file system; what a disk promises and what it does not (spare_descriptor.py)
    layout.py          names of files and folders, and the small text files
    segment.py         one .log file with its two indexes (offset_index.py, time_index.py, index_entries.py)
    txn_index.py       the third index, of aborted transactions; made again after a crash by txn_recovery.py
    partition_log.py   the segments of one partition: reading, cutting, swapping
    log_writer.py      how a partition's log is written: appending, rolling, flushing, failing
    recovery.py        how a log is opened after a stop or a crash
    shared_sync.py     many appends, few syncs (flush.py, syncfs.py)
    log_directory.py   the data folder: lock, checkpoints, clean stop
    compactor.py, retention.py   how logs become smaller

    with a thread that syncs:
        directory = LogDirectory.open(RealDisk(), "/var/lib/kohort", config_of)
        log = directory.log("orders", 0, topic_id=...)
        info = log.append(batch, now=now)                 # in the page cache, numbered
        syncs.appended(log, ready)                        # ready() is called when it is on the medium
        piece = log.read(offset, max_bytes, up_to=...)    # a slice of a file, for sendfile or read()
        directory.close()
"""

if __name__ != "kohort.storage":  # the repository itself is on sys.path: each module would exist twice
    raise ImportError(f"import kohort.storage, not {__name__}", name=__name__)
