"""Who owned each partition of a group at a moment.

group_history.py  reads the history of one group, from log folders or from a store; without Spark
time_machine.py   answers for any moment of that history
share_members.py  what it asks about share groups
"""
