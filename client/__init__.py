"""A client for Kafka clusters: what the commands, the audit and the recorder ask brokers with. It never coordinates.

Read in this order:

    client.py            one connection to one broker: versions, requests, answers
    ask.py               questions about groups and offsets
    group_view.py        a group and its members, whatever the type of the group (share_group_view.py: of share groups)
"""

if __name__ != "kohort.client":  # the repository itself is on sys.path: each module would exist twice
    raise ImportError(f"import kohort.client, not {__name__}", name=__name__)
