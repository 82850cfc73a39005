"""The coordinators, without sockets, files, threads or clocks: of groups, and of the states of share groups.

Theory of operation, read first.

A coordinator keeps what it knows in an internal topic. A *shard* is one partition of it: for the group coordinator a
partition of __consumer_offsets, with the groups whose ids hash to it. It takes a decoded request and
the time, and gives a response, or an `Outcome`: records for the log, and replies. Replaying records is the only way
durable state changes, live and at restart alike. A reply that rests on records leaves when they are durable.

    host                      runtime                 shard                   handler
    ----                      -------                 -----                   -------
    request  -->  submit  -->  which shard?  -->  join_group(shard, request, call)
                                                   <--  response | PARKED | Outcome | InPieces
                               apply: replay the records, put them into the shard's open batch
    take_writes  <--           one record batch per shard
    append, sync
    written  -->               replies that waited for the batch
    take_replies  <--          whatever is ready to leave
    next_deadline, expire  --> purgatories: joins, syncs and sessions whose deadline has come

Read in this order:

    group.py         what a shard asks of every group
    outcome.py       what handlers give back; api.py: how an API is served; pieces.py: long work, piece by piece
    shard_state.py   what a shard of groups knows; state.py: what every shard knows; shard_clock.py: its time;
                     purgatory.py: operations that wait for a deadline
    membership.py    JoinGroup and the other APIs of members: they are handled by the kind of group that is named
    rebalance.py     why a group of the newer protocols rebalances, and when that is over
    conversion.py    a classic group becomes a consumer group, and the other way round
    classic/         classic groups
    consumer/        consumer groups (KIP-848)
    share/           share groups (KIP-932): who is a member, and of what
    foreign.py       streams groups of a log, which Kohort keeps and does not coordinate
    offsets/  admin/ the APIs that concern every kind of group
    shard.py         how a log becomes state; runtime.py: all shards of a coordinator, as the host sees them
    group_shard.py   the same for groups; group_runtime.py: what a runtime does for groups alone
    share_state/     the share coordinator, on the same runtime: how far share groups have come
    assignors/       how partitions are shared out: pure functions

Two kinds of state, never mixed. *Hard*: what the log says (generation, members, assignments, offsets). *Soft*: who
waits, session deadlines, the join phase in progress; lost at a restart, and that is fine, because clients come back.

A failed write fails the shard: waiting callers get an error that tells them to come again, the shard is emptied and
loaded from its log. There is no rollback code.
"""

if __name__ != "kohort.coordinator":  # the repository itself is on sys.path: each module would exist twice
    raise ImportError(f"import kohort.coordinator, not {__name__}", name=__name__)
