"""The transaction coordinator (KIP-98, 360, 890): it keeps how far each transactional id has come, in
__transaction_state.

A producer with a transactional id gets a producer id and an epoch (InitProducerId). Partitions that it writes to are
added to its transaction. EndTxn decides: the decision is a record (PrepareCommit or PrepareAbort). When that is
durable, the host writes a marker into each of the partitions, and tells the coordinator when all of them are there; a
second record (CompleteCommit or CompleteAbort) ends the transaction. Read in this order:

    transaction_state.py        the states, and from where each may be entered
    transaction.py              what is known of one transactional id, and the record of each change
    state.py                    what one shard knows
    transaction_shard.py        replays the log; after a load, has markers of decided transactions sent again
    ending.py                   from the decision to the end, and how a producer is fenced
    init_producer_id.py         a file per API
    add_partitions_to_txn.py
    add_offsets_to_txn.py
    end_txn.py
    describe_transactions.py
    list_transactions.py
    upkeep.py                   transactions that take too long, and transactional ids that nobody uses any more
    headers.py                  what the records tell the audit

Kafka appends a record first, has a *pending* state meanwhile, and answers CONCURRENT_TRANSACTIONS to whoever comes in
between. Here a record is replayed at once, and answers that rest on it wait until it is durable, as everywhere in
Kohort. So one pending state is left: between the decision and the end, when the markers are on their way. Everybody is
told CONCURRENT_TRANSACTIONS then, whatever else is wrong with the request.

An *epoch* fences: a producer with an older one is turned away. Clients of transaction version 2 (KIP-890) get a new
epoch with each end of a transaction; older ones keep theirs. The versions of its requests tell a new client from an
old one: EndTxn from version 5, AddPartitionsToTxn from version 4, Produce from version 12, TxnOffsetCommit from
version 5.
"""
