"""The rebalances of one group, from its records in the log, and why each happened. Pure: no files, sockets, clocks.

    from kohort.history.explain import explain
    from kohort.history.group_history import GroupHistory
    from kohort.history.records import Reader
    from kohort.history.text import text_of

    history, reader = GroupHistory("billing"), Reader("billing")
    for record in reader.read(data):        # bytes: batches of the group's partition of __consumer_offsets
        history.add(record)
    for explanation in explain(history):
        print(text_of(explanation))         # or as_json

Read in this order:

    records.py           records of one group, picked out of many
    members.py           members and partitions as records describe them
    rebalance.py         what is known about one rebalance
    group_history.py     walks through the records: classic.py for classic groups, server_side.py for the others;
                         walk.py has what both share
    moves.py             how many partitions moved, and how many of them needlessly (the audit counts with it, too)
    changes.py           what is different after a rebalance
    patterns.py          members that came back, flap, or are restarted one after the other
    departure.py         how a member went: it left, fell silent, or was too slow
    cause.py             why it happened: what Kohort's record headers say, or else what follows from the changes
    costs.py             what other ways of rebalancing would have cost
    advice.py            what to change
    explain.py           all of this for each rebalance
    text.py, as_json.py  as text, as JSON; words.py has names, durations and lists in words
"""

if __name__ != "kohort.history":  # the repository itself is on sys.path: each module would exist twice
    raise ImportError(f"import kohort.history, not {__name__}", name=__name__)
