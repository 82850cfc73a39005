"""Where `kohort why` gets the records of a group: from folders, or from a cluster. What they mean, history/ knows.

source.py       what both have in common: batches in, a GroupHistory out
folders.py      a data folder, a copy of one, or a recording
cluster.py      fetches the group's partition of __consumer_offsets from its leader
lookalikes.py   which groups there are, for a name that is unknown
"""

if __name__ != "kohort.broker.why":  # the repository itself is on sys.path: each module would exist twice
    raise ImportError(f"import kohort.broker.why, not {__name__}", name=__name__)
