"""Delivery of one partition to the members of one share group (KIP-932): who may have which record, and for how long.

`SharePartition` is the state machine that the leader of the partition keeps in memory. It is pure: the time comes in as
`now`, in milliseconds of the steady clock, and what must be persisted goes out as a `Write`.

    available      nobody has the record
    acquired       a member has it, until the lock expires
    acknowledged   a member has accepted it; final
    archived       rejected, a gap, delivered too often, or no longer in the log; final

    fetch          available -> acquired, delivery count + 1
    accept         acquired -> acknowledged
    release        acquired -> available, or archived if it was delivered as often as the limit says
    reject, gap    acquired -> archived
    lock expired   as release
    renew          acquired stays acquired; the lock begins anew

The records between the start offset and the end offset are in flight. They are kept as batches, as they were acquired
(`window.py`), and a batch as runs of neighbouring records that are in the same state (`runs.py`): thousands of records
that one fetch acquired are one run, until somebody acknowledges a part of them.

Acknowledging and releasing take two steps. The runs change, and remember what they were (`Transition`); the host has
the change persisted and calls `SharePartition.written`. Only then the change is final, and the start offset may move
past it. If the write failed, the runs become acquired again, or available if their lock has expired meanwhile. Locks
that expire change the runs at once, whether that can be written or not: a crash would free the records as well.

That a record is acquired is not persisted. After a crash it is available, with the delivery count that was last
written; and what lies between persisted batches is fetched from the log as if it were new (the gap of `window.py`).

Files, in reading order: states.py, runs.py, window.py, acquire.py, acknowledge.py, share_partition.py; offset_reset.py
says where a share partition begins that has no state yet.
"""

if __name__ != "kohort.coordinator.delivery":  # the repository itself is on sys.path: each module would exist twice
    raise ImportError(f"import kohort.coordinator.delivery, not {__name__}", name=__name__)
