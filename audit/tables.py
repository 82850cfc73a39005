"""Every table of the audit: its columns, their types, what they mean.

Base tables have the contents of the log: a row per record (or batch, or member of a generation). They only grow: an
audit into the same folder adds what is new, so that they remember what compaction has removed from the log. Derived
tables are computed again from all base tables in each run. Types are those of Spark. Times are UTC.

A position in the log is `log_partition` and `log_offset`; a group's records are ordered by it. `offset` alone always
means an offset that a consumer has committed.

Three topics are read: __consumer_offsets, __share_group_state with the progress of share groups, and
__transaction_state with the transactions. Their partitions share one column: `log_partition` 100000 + n is partition n
of __share_group_state, 200000 + n is partition n of __transaction_state. So a number still names one log.
"""

from __future__ import annotations

from typing import NamedTuple

MAX_MS = 253_402_300_799_999  # the end of the year 9999, the last time that Python can represent
STATE_LOGS = 100_000  # log partitions from here on are those of __share_group_state
TRANSACTION_LOGS = 200_000  # and from here on, those of __transaction_state
OFFSETS_TOPIC, STATE_TOPIC, TRANSACTIONS_TOPIC = "__consumer_offsets", "__share_group_state", "__transaction_state"
FIRST_NUMBER = {OFFSETS_TOPIC: 0, STATE_TOPIC: STATE_LOGS, TRANSACTIONS_TOPIC: TRANSACTION_LOGS}


def keeps_groups(log_partition: int) -> bool:
    return log_partition < STATE_LOGS


def keeps_share_state(log_partition: int) -> bool:
    return STATE_LOGS <= log_partition < TRANSACTION_LOGS


def keeps_transactions(log_partition: int) -> bool:
    return log_partition >= TRANSACTION_LOGS


def log_name(log_partition: int) -> str:
    """The partition as Kafka names its folder."""
    topic, first = next(place for place in reversed(FIRST_NUMBER.items()) if place[1] <= log_partition)
    return f"{topic}-{log_partition - first}"


class Column(NamedTuple):
    name: str
    type: str  # as written in Spark's DDL
    about: str


class Table(NamedTuple):
    name: str
    about: str
    columns: tuple[Column, ...]

    @property
    def ddl(self) -> str:
        return ", ".join(f"`{column.name}` {column.type}" for column in self.columns)


def _columns(text: str) -> tuple[Column, ...]:
    """One per line: name, type, meaning."""
    made = []
    for line in text.strip().splitlines():
        name, kind, about = line.split(None, 2)
        made.append(Column(name, kind, about.strip()))
    return tuple(made)


LOG_BATCHES = Table(
    "log_batches",
    "A row per record batch in the files, and per stretch of bytes that is no batch.",
    _columns("""
    log_partition    int        partition of __consumer_offsets; 100000 + n: of __share_group_state; 200000 + n: of __transaction_state
    segment          bigint     base offset of the segment file, which is the file's name
    position         bigint     where in the file the batch begins
    size_bytes       bigint     size of the batch, or of the stretch that is no batch
    log_offset       bigint     offset of its first record; null if unreadable
    last_log_offset  bigint     offset of its last record; compaction does not change it
    record_count     int        number of records that compaction has left in it
    max_time         timestamp  greatest record time
    codec            string     none, gzip, snappy, lz4, zstd
    leader_epoch     int        partition leader epoch
    producer_id      bigint     -1 unless idempotent or transactional
    producer_epoch   int        -1 unless idempotent or transactional
    transactional    boolean    written in a transaction
    marker           string     COMMIT or ABORT for a control batch (UNKNOWN: another kind), else null
    coordinator_epoch int       epoch of the transaction coordinator that wrote the marker, else null
    base_sequence    int        sequence number of its first record, -1 if it has none
    time_type        string     create: the clients set the record times; append: the broker set them when it received the batch
    delete_horizon   timestamp  when compaction may remove its tombstones and markers; null if compaction has not seen them yet
    crc              bigint     the checksum in its header
    problem          string     null, or: crc (wrong checksum), torn (the file ends inside of the batch), garbage (no batch header), undecodable (its records cannot be decoded)
    detail           string     the problem in words
    """),
)

OFFSET_COMMITS = Table(
    "offset_commits",
    "A row per committed offset or its tombstone (key types 0 and 1).",
    _columns("""
    log_partition    int        partition of __consumer_offsets
    log_offset       bigint     offset of the record
    record_time      timestamp  time of the record; 1970 if it has none
    group_id         string     the group
    topic            string     the topic
    partition        int        the topic's partition
    tombstone        boolean    the offset was deleted or has expired
    offset           bigint     the committed offset: what the group reads next (null in tombstones)
    offset_epoch     int        leader epoch in the commit, -1 if none
    metadata         string     text that the client attached to the commit
    commit_time      timestamp  when the coordinator received the commit
    expire_time      timestamp  expiry time that an old client asked for, else null
    topic_id         string     the topic's id as Kafka prints it (base64url), null if unknown
    member_id        string     the member that committed, from Kohort's record header; null if there is none, "" for a simple consumer
    generation       int        the generation or member epoch in the request; null if the log does not say
    producer_id      bigint     -1, or the producer of a transactional commit
    transaction      string     none, committed, aborted, or open (no marker yet)
    key_version      int        type of the key: 0 or 1
    value_version    int        version of the value, null in tombstones
    """),
)

GROUP_GENERATIONS = Table(
    "group_generations",
    "A row per record about a whole group: a classic generation (type 2), or an epoch of a consumer, share or streams group.",
    _columns("""
    log_partition    int        partition of __consumer_offsets
    log_offset       bigint     offset of the record
    record_time      timestamp  time of the record; 1970 if it has none
    group_id         string     the group
    group_type       string     classic, consumer, share, streams
    record_type      int        key type: 2 classic; 3, 6 consumer epoch and target epoch; 11, 12 the same for share groups, 17, 20 for streams groups
    tombstone        boolean    the group was deleted (types 2, 3, 11, 17)
    generation       int        generation or epoch
    protocol_type    string     "consumer" for consumers; classic only
    protocol         string     the assignor that was voted for; classic only
    leader           string     member id of the leader; classic only
    state_time       timestamp  classic: when the join phase ended; null if unknown
    member_count     int        classic: number of members in the record
    join_start       timestamp  when the join phase began, from Kohort's record header, else null
    cause            string     why there was a rebalance, from Kohort's record header, else null
    trigger          string     the member that caused it, from Kohort's record header, else null
    value_version    int        version of the value, null in tombstones
    rest             string     fields of the value that have no column, as JSON with the names of kafka-dump-log; null if there are none
    """),
)

MEMBER_ASSIGNMENTS = Table(
    "member_assignments",
    "A row per member of a classic generation, and per record about a member of a consumer, share or streams group.",
    _columns("""
    log_partition    int        partition of __consumer_offsets
    log_offset       bigint     offset of the record
    record_time      timestamp  time of the record; 1970 if it has none
    group_id         string     the group
    group_type       string     classic, consumer, share, streams
    record_type      int        2 member of a classic generation; 5, 10, 19 metadata of a member; 7, 13, 21 target assignment; 8, 14, 22 current assignment
    tombstone        boolean    the member or its assignment was deleted
    generation       int        classic: the generation; types 8, 14, 22: the member epoch; else null
    previous_generation int     types 8, 14, 22: the previous member epoch; else null
    member_id        string     the member
    instance_id      string     group.instance.id of a static member
    rack_id          string     types 5, 10, 19: the rack of the client
    client_id        string     client.id of the client
    client_host      string     address from which it connected
    rebalance_timeout_ms int    how long the member may take to rejoin
    session_timeout_ms int      how long the member may be silent; classic only
    subscribed_topics array<string> topics it subscribes to; null if the subscription cannot be decoded or is not in the record
    subscribed_regex string     type 5: the regular expression of the subscription, beside the topics; null if none. What it matches is in other_records, type 16
    server_assignor  string     type 5: the assignor that the member asks for
    owned            array<struct<topic:string,partition:int>> classic: partitions that the member said it owned when it joined; null if it did not say
    assigned         array<struct<topic:string,topic_id:string,partition:int>> its partitions; topic is null if only the id is known, topic_id is null if only the name is known; null for streams groups, whose tasks are in `rest`
    revoking         array<struct<topic:string,topic_id:string,partition:int>> type 8: partitions that it still has to revoke
    state            int        types 8, 14: 0 stable, 1 unrevoked, 2 unreleased; type 22: 1, 2, 3
    readable         boolean    false: subscription or assignment cannot be decoded (another protocol type, or damaged)
    value_version    int        version of the value, null in tombstones
    rest             string     fields of the value that have no column, as JSON with the names of kafka-dump-log; null if there are none
    """),
)

OTHER_RECORDS = Table(
    "other_records",
    "A row per record that fits no other table: partition metadata, regular expressions, topologies of streams groups, unknown types, records that cannot be decoded.",
    _columns("""
    log_partition    int        partition of __consumer_offsets; 100000 + n: of __share_group_state; 200000 + n: of __transaction_state
    log_offset       bigint     offset of the record
    record_time      timestamp  time of the record; 1970 if it has none
    record_type      int        type of the key; null if there is no key
    group_id         string     the group, if the key could be decoded
    tombstone        boolean    the record has no value
    key              string     as kafka-dump-log shows it (JSON); hexadecimal if it cannot be decoded
    value            string     in the same form; null for a tombstone
    problem          string     null, or: unknown (type of a newer Kafka), undecodable, no key
    detail           string     the problem in words
    """),
)

SHARE_STATES = Table(
    "share_states",
    "A row per record in __share_group_state: how far a share group has come with a partition. A snapshot has the whole state, an update what has changed.",
    _columns("""
    log_partition    int        100000 + n: partition n of __share_group_state
    log_offset       bigint     offset of the record
    record_time      timestamp  time of the record; 1970 if it has none
    group_id         string     the share group
    topic            string     the topic; null if only its id is known
    topic_id         string     its id as Kafka prints it (base64url)
    partition        int        the topic's partition
    record_type      int        0 snapshot, 1 update
    tombstone        boolean    the state was deleted
    snapshot_epoch   int        number of the snapshot, to which updates belong
    state_epoch      int        rises with each initialization and with each offset that an administrator sets; null in updates
    leader_epoch     int        leader epoch of the partition's leader, which asked for the change; -1 or 0 if there was none
    start_offset     bigint     where the group goes on: all before it is finished. In an update, -1: as it was; in a snapshot, -1: not decided yet
    complete_count   int        number of records from start_offset on that are finished; null if the record does not say
    create_time      timestamp  snapshots: when the first one was written
    write_time       timestamp  snapshots: when this one was written
    batches          array<struct<first:bigint,last:bigint,state:int,deliveries:int>> ranges of offsets: state 0 available, 2 acknowledged, 4 archived; how often they were delivered
    cause            string     why the state was changed, from Kohort's record header: acknowledge, release, session closed, lock timeout, start moved, initialize, alter; else null
    member_id        string     the member that had the records, from Kohort's record header, else null
    value_version    int        version of the value, null in tombstones
    """),
)

TRANSACTION_STATES = Table(
    "transaction_states",
    "A row per record in __transaction_state: how far a transactional id has come. A record has the whole state of it.",
    _columns("""
    log_partition    int        200000 + n: partition n of __transaction_state
    log_offset       bigint     offset of the record
    record_time      timestamp  time of the record; 1970 if it has none
    transactional_id string     the transactional id
    tombstone        boolean    the id has expired
    producer_id      bigint     its producer id
    producer_epoch   int        the epoch of its producer: rises with each producer that uses the id, and from version 2 on with each transaction
    state            string     Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort
    timeout_ms       int        how long a transaction may take; then the coordinator aborts it
    start_time       timestamp  when the transaction began; null if none has
    update_time      timestamp  when the record was written
    partitions       array<struct<topic:string,partition:int>> the partitions of the transaction; of __consumer_offsets, those with the offsets of its groups
    client_version   int        transaction version of the client: 0 or 2
    cause            string     why the transaction was decided, from Kohort's record header: client, timeout, fenced; else null
    client_id        string     client.id of the producer, from Kohort's record header, else null
    value_version    int        version of the value, null in tombstones
    """),
)

BASE_TABLES = (
    LOG_BATCHES, OFFSET_COMMITS, GROUP_GENERATIONS, MEMBER_ASSIGNMENTS, OTHER_RECORDS, SHARE_STATES, TRANSACTION_STATES,
)  # fmt: skip

OWNERSHIP_INTERVALS = Table(
    "ownership_intervals",
    "Who owned which partition from when to when: a row per uninterrupted ownership.",
    _columns("""
    group_id         string     the group
    group_type       string     classic, consumer: the group's type when the ownership began
    topic            string     the topic
    partition        int        its partition
    member_id        string     the owner
    instance_id      string     group.instance.id of a static member
    client_id        string     client.id of the client
    client_host      string     address from which it connected
    first_generation int        generation or member epoch in which the ownership began
    last_generation  int        last generation or member epoch in which the member had the partition
    start_time       timestamp  time of the record that began it
    end_time         timestamp  time of the record that ended it; null: still owned at the end of the log
    log_partition    int        partition of __consumer_offsets
    start_log_offset bigint     offset of the record that began it
    end_log_offset   bigint     offset of the record that ended it; null if still owned
    ended_by         string     moved, unassigned, left, emptied, deleted; null if still owned
    revoking_since   timestamp  consumer groups: since when the member had to give the partition up; null if it had not to
    """),
)

REBALANCES = Table(
    "rebalances",
    "A row per generation with members (classic), or per target assignment (consumer groups).",
    _columns("""
    group_id         string     the group
    group_type       string     classic, consumer
    generation       int        the new generation or epoch
    previous_generation int     the previous one in the log; null for the first in the log
    log_partition    int        partition of __consumer_offsets
    log_offset       bigint     offset of the record
    time             timestamp  time of the record
    protocol         string     the assignor; consumer groups: the one that all members ask for
    leader           string     member id of the leader; classic only
    cause            string     why there was a rebalance, if the log says so
    trigger          string     the member that caused it, if the log says so
    join_start       timestamp  when the join phase began, if the log says so; consumer groups: when the new epoch was decided
    join_ms          bigint     how long the coordinator waited for members: from join_start to state_time; null if unknown
    sync_ms          bigint     how long the leader took to assign: from state_time to the record; null if unknown
    duration_ms      bigint     from join_start to the record; consumer groups: until every member had what it shall have; null if unknown, or overtaken by the next rebalance
    timeout_ms       int        greatest rebalance timeout among its members
    member_count     int        number of members
    joined           array<string> member ids that were not in the previous generation
    left             array<string> member ids of the previous generation that are not in this one
    partition_count  int        number of assigned partitions
    moved            int        partitions that had an owner before and have another one now
    forced_moves     int        moved partitions whose previous owner had left or unsubscribed
    avoidable_moves  int        other moves that the balance did not need: see docs/audit.md
    max_load         int        number of partitions of the member with most
    min_load         int        number of partitions of the member with fewest
    idle_members     int        number of members without a partition
    """),
)

WHAT_IF = Table(
    "what_if",
    "What each assignor would have done at a rebalance of a classic group, with the same owners before it.",
    _columns("""
    group_id         string     the group
    generation       int        the generation
    log_offset       bigint     offset of its record
    assignor         string     range, roundrobin, sticky, cooperative-sticky
    moved            int        partitions whose owner would have changed
    interrupted      int        partitions that members would have had to revoke: all that they owned, or with cooperative-sticky those that move
    max_load         int        number of partitions of the member with most
    min_load         int        number of partitions of the member with fewest
    actual           boolean    whether the group used this assignor
    """),
)

COMMIT_STEPS = Table(
    "commit_steps",
    "Each visible commit with the previous one for the same group and partition, and the owner of the partition.",
    _columns("""
    log_partition    int        partition of __consumer_offsets
    log_offset       bigint     offset of the record
    group_id         string     the group
    topic            string     the topic
    partition        int        its partition
    time             timestamp  commit time; record time for a tombstone
    tombstone        boolean    the offset was deleted
    offset           bigint     the committed offset
    previous_offset  bigint     the offset committed before; null for the first commit, or after a tombstone
    previous_time    timestamp  when the previous offset was committed
    previous_topic_id string    topic id of the previous commit
    topic_id         string     topic id of this commit
    step             bigint     offset - previous_offset
    high             bigint     greatest offset committed before; null for the first commit
    metadata         string     text that the client attached to the commit
    member_id        string     the member that committed; null if the log does not say
    generation       int        the generation in the request; null if the log does not say
    owner            string     member id of the owner at this log offset; null if there was none
    group_generation int        the group's generation at this log offset; null if the log has none before it
    group_type       string     classic, consumer, share; null if the log has no record of the group before it (a simple consumer)
    """),
)

PARTITION_FACTS = Table(
    "partition_facts",
    "A row per group and partition that the group has committed to or owned.",
    _columns("""
    group_id         string     the group
    topic            string     the topic
    partition        int        its partition
    topic_id         string     the last known topic id
    log_partition    int        partition of __consumer_offsets
    commits          bigint     number of commits in the tables
    tombstones       bigint     number of deletions
    first_time       timestamp  time of the first commit
    last_time        timestamp  time of the last commit
    first_offset     bigint     the first committed offset
    last_offset      bigint     the last committed offset; null if it was deleted
    max_offset       bigint     the greatest committed offset
    rewinds          bigint     number of commits of a lower offset than the one before
    largest_rewind   bigint     the largest rewind, in records
    unregained       boolean    whether the last committed offset is lower than the greatest one
    median_step      bigint     median of the steps forward
    median_interval_ms bigint   median of the time between two commits
    owner            string     member id of the owner at the end of the log
    owner_since      timestamp  since when the owner has it
    """),
)

PENDING_OFFSETS = Table(
    "pending_offsets",
    "Offsets that were committed in a transaction which had not ended at the end of the log: a row per group, partition and producer.",
    _columns("""
    log_partition    int        partition of __consumer_offsets
    log_offset       bigint     offset of the last such record
    group_id         string     the group
    topic            string     the topic
    partition        int        its partition
    offset           bigint     the offset that will be committed if the transaction is
    producer_id      bigint     the producer of the transaction
    since            timestamp  time of the first such record
    member_id        string     the member that committed; null if the log does not say
    """),
)

SHARE_MEMBERS = Table(
    "share_members",
    "What each member of a share group was assigned from when to when. Several members share a partition.",
    _columns("""
    group_id         string     the share group
    member_id        string     the member
    client_id        string     client.id of the client
    client_host      string     address from which it connected
    rack_id          string     the rack of the client
    first_epoch      int        member epoch in which it got these partitions
    last_epoch       int        last member epoch in which it had them
    partitions       array<struct<topic:string,topic_id:string,partition:int>> the partitions; topic is null if only the id is known
    start_time       timestamp  since when
    end_time         timestamp  until when; null: at the end of the log it still had them
    log_partition    int        partition of __consumer_offsets
    start_log_offset bigint     offset of the record that began it
    end_log_offset   bigint     offset of the record that ended it; null if nothing did
    ended_by         string     assigned (the next assignment), left; null if nothing did
    """),
)

SHARE_STEPS = Table(
    "share_steps",
    "Each record of share_states, compared with the one before it for the same group and partition.",
    _columns("""
    log_partition    int        100000 + n: partition n of __share_group_state
    log_offset       bigint     offset of the record
    group_id         string     the share group
    topic            string     the topic; null if only its id is known
    topic_id         string     its id
    partition        int        its partition
    time             timestamp  time of the record
    snapshot         boolean    it is a snapshot, which repeats what updates said before
    tombstone        boolean    the state was deleted
    start_offset     bigint     the start offset from this record on; null if it is not decided
    step             bigint     how far the start offset has moved; null for the first record, and if it was not known
    end_offset       bigint     one more than the greatest offset in the record; null if it has none
    accepted         bigint     records that the update says were acknowledged; 0 in snapshots
    archived         bigint     records that it says will not be delivered again: rejected, gaps, or delivered too often
    returned         bigint     records that it says can be delivered again
    deliveries       int        how often the record that was delivered most often was delivered, of those in this update or snapshot; null if there are none
    cause            string     why, from Kohort's record header, else null
    member_id        string     the member that had the records, from Kohort's record header, else null
    """),
)

SHARE_PARTITIONS = Table(
    "share_partitions",
    "A row per partition that a share group reads: how far it has come at the end of the log.",
    _columns("""
    group_id         string     the share group
    topic            string     the topic; null if only its id is known
    topic_id         string     its id
    partition        int        its partition
    log_partition    int        100000 + n: partition n of __share_group_state
    deleted          boolean    the last record is a tombstone
    first_time       timestamp  time of the first record in the tables
    last_time        timestamp  time of the last one
    last_update      timestamp  time of the last update; null if there is none
    updates          bigint     number of updates
    snapshots        bigint     number of snapshots
    first_start      bigint     the first start offset in the tables; null if none is known
    start_offset     bigint     the last one
    state_epoch      int        the last state epoch; null if the tables have no snapshot
    leader_epoch     int        the last leader epoch
    accepted         bigint     records that updates say were acknowledged
    archived         bigint     records that updates say will not be delivered again
    returned         bigint     records that updates say can be delivered again
    timeouts         bigint     number of updates because of an acquisition lock that has expired; null if the log does not say
    finished         bigint     records from the start offset on that are acknowledged or archived
    waiting          bigint     records from the start offset on that were delivered, came back, and wait for the next delivery
    deliveries       int        how often the one of them that was delivered most often was delivered; null if there are none
    most_delivered   bigint     the first of the records that were delivered most often; null if there are none
    start_deliveries int        how often the record at the start offset was delivered, as far as the log says; null if it does not
    """),
)

FINDINGS = Table(
    "findings",
    "What the checks found, worst first.",
    _columns("""
    check            string     the check that found it
    severity         string     critical, error, warning, info
    group_id         string     the group, if it is about one
    topic            string     the topic, if it is about one
    partition        int        the partition of the topic, if it is about one
    member_id        string     the member, if it is about one
    generation       int        the generation, if it is about one
    log_partition    int        partition of __consumer_offsets; 100000 + n: of __share_group_state; 200000 + n: of __transaction_state
    log_offset       bigint     offset in the log
    time             timestamp  when it happened or began
    until            timestamp  when it ended, if it lasted for some time
    value            double     the measured value that is compared with the threshold; null if there is none
    message          string     what was seen, in one sentence
    advice           string     what to do, in one sentence
    """),
)

CHECK_RESULTS = Table(
    "check_results",
    "A row per check with its status, and a row per group for which the check is not evaluable.",
    _columns("""
    check            string     the check
    status           string     clean, found, or not evaluable
    severity         string     severity of its findings
    findings         bigint     number of its findings
    threshold        string     the thresholds that were used, as text
    group_id         string     the group for which it is not evaluable; null for the check as a whole
    reason           string     why it is not evaluable
    """),
)

AUDIT_RUNS = Table(
    "audit_runs",
    "A row per run and log partition: what was read.",
    _columns("""
    run_id           string     id of the run
    started          timestamp  when the run began
    finished         timestamp  when the run ended
    path             string     the folder that was read
    log_partition    int        partition of __consumer_offsets; 100000 + n: of __share_group_state; 200000 + n: of __transaction_state
    first_log_offset bigint     the first offset in the log
    from_log_offset  bigint     the first offset that this run has read
    end_log_offset   bigint     one more than the last offset that was read
    cleaned_to       bigint     the offset below which compaction has run, from the cleaner's checkpoint; 0 if it never ran; null if unknown
    records          bigint     number of new records
    problem          string     why it could not be read; null if it was read
    """),
)

DERIVED_TABLES = (
    OWNERSHIP_INTERVALS, REBALANCES, WHAT_IF, COMMIT_STEPS, PARTITION_FACTS, PENDING_OFFSETS, SHARE_MEMBERS,
    SHARE_STEPS, SHARE_PARTITIONS, FINDINGS, CHECK_RESULTS,
)  # fmt: skip
BASE = tuple(table.name for table in BASE_TABLES)
TABLES = {table.name: table for table in (*BASE_TABLES, *DERIVED_TABLES, AUDIT_RUNS)}
