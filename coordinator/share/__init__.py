"""Share groups (KIP-932), as far as the group coordinator knows them: members, targets, and which partitions are ready.

Read in this order:

    member.py                  a member as the log describes it; it is never changed, only replaced
    group.py                   a group: what its records say, and its sessions
    initialization.py          share partitions get a state with the share coordinator before anybody reads them
    share_group_heartbeat.py   the API: joins, heartbeats and leaves
    target.py                  who shall have which partitions: the target assignment of an epoch
    removal.py                 members that leave or are silent for too long
    share_group_describe.py    the other API of members
    offsets.py                 the group's part in the APIs about start offsets, and in its own deletion

Several members may have the same partition, so nobody has to give up anything before another member gets it: a member
goes to the target of the newest epoch in one step. A partition is assigned only once the share coordinator has a state
for it. So a new group is at first empty-handed: its first heartbeat asks for the states, and a later one gets
partitions. What is delivered to whom is not the group coordinator's affair, but that of the partition's leader.
"""
