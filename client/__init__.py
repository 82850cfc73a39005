"""A client for Kafka clusters: what the commands, the audit and the recorder ask brokers with. It never coordinates.

Read in this order:

    settings.py          what client.properties says (tls.py, sasl.py, jaas.py)
    client.py            one connection to one broker: versions, logging in, requests, answers (sockets.py)
    cluster.py           all brokers of a cluster: leaders, coordinators, a connection to each that is needed
    ask.py               questions about groups and offsets (answers.py: error codes in words)
    group_view.py        a group and its members, whatever the type of the group (share_group_view.py: of share groups)
    overview.py          all groups in a line each, with members and lag

errors.py has what goes wrong, in words for people.
"""

if __name__ != "kohort.client":  # the repository itself is on sys.path: each module would exist twice
    raise ImportError(f"import kohort.client, not {__name__}", name=__name__)
