"""The share coordinator (KIP-932): it keeps how far each share group has come, in __share_group_state.

The leader of a partition hands out records to the members of share groups. It tells the share coordinator which records
were acknowledged, released or archived, and asks for that after a restart. The unit is a *share partition*: one
partition as one group reads it. Read in this order:

    keys.py                            which share partition, and where it belongs
    batches.py                         states of ranges of offsets, and how newer ones are merged into older ones
    share_group_offset.py              what is known of one share partition, and its records
    state.py, share_shard.py           what one shard knows, and how its log becomes that
    partition_api.py                   how the five APIs are served: each handles one share partition
    initialize_share_group_state.py    a file per API
    read_share_group_state.py
    write_share_group_state.py
    delete_share_group_state.py
    read_share_group_state_summary.py
    upkeep.py                          snapshots of share partitions that are quiet, deleted topics, what can be trimmed
    headers.py                         what the records tell the audit

Two epochs fence. A *leader epoch* is that of the partition's leader: who has been deposed cannot write any more. The
*state epoch* rises when the group coordinator initializes the share partition anew, because an administrator has moved
its start: whoever has the older state cannot write it any more.

A *snapshot* is a whole state, an *update* what has changed since. There is a new snapshot after some updates, so that
the log can be cut off below the oldest snapshot that is still needed.
"""
