"""Consumer groups of KIP-848: the coordinator assigns partitions, and members reconcile one by one.

Read in this order:

    member.py                     a member as the log describes it; it is never changed, only replaced
    subscriptions.py              which topics the members want; regex.py: those that match a regular expression
    group.py                      a group: what its records say, and its sessions
    consumer_group_heartbeat.py   the API: joins, heartbeats and leaves
    member_update.py              how a heartbeat or a JoinGroup changes the group, step by step
    target.py                     who shall have which partitions: the target assignment of an epoch
    reconcile.py                  how far one member has come on the way to its target
    removal.py, timers.py         members that leave, or are silent for too long
    classic_join.py, classic_sync.py, classic_heartbeat.py, classic_leave.py
                                  members that speak the classic protocol, in a group that is on its way between both
    consumer_group_describe.py    the other API

Epochs. A change of members, subscriptions or topics bumps the *group epoch*. The target assignment is computed for a
group epoch, which is then its *assignment epoch*. A member that has given up what it must, and may therefore have what
its target says, is at the assignment epoch too: that is its *member epoch*. A group is Stable when all its
members are at the group epoch. A partition is given to a member only when the member that had it has reported that it
gave it up.
"""
