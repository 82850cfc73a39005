"""Every table of the audit: its columns, their types, what they mean.

Base tables hold what the log said, a row per record (or batch, or member of a generation). They only grow: an audit into
the same folder adds what is new, so that they remember what compaction has removed. Derived tables are worked out anew
from the whole of the base tables in each run. Types are Spark's. Times are UTC.

A position in the log is `log_partition` and `log_offset`; a group's records are ordered by it. `offset` alone always
means an offset that a consumer has committed.
"""

from __future__ import annotations

from typing import NamedTuple

MAX_MS = 253_402_300_799_999  # the end of the year 9999: Python knows no later time


class Column(NamedTuple):
    name: str
    type: str  # as in Spark's DDL
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
    "A row per record batch in the files, and per stretch of bytes that is none.",
    _columns("""
    log_partition    int        partition of __consumer_offsets
    segment          bigint     base offset of the segment file, its name
    position         bigint     where in the file the batch begins
    size_bytes       bigint     of the batch; of the unreadable stretch if `problem` says so
    log_offset       bigint     of its first record (null if unreadable)
    last_log_offset  bigint     of its last record; compaction keeps it
    record_count     int        records that are still in it
    max_time         timestamp  greatest record time
    codec            string     none, gzip, snappy, lz4, zstd
    leader_epoch     int        partition leader epoch
    producer_id      bigint     -1 unless idempotent or transactional
    producer_epoch   int        -1 likewise
    transactional    boolean    written in a transaction
    marker           string     COMMIT or ABORT for a control batch (UNKNOWN: another kind), else null
    coordinator_epoch int       of the transaction coordinator that wrote the marker, else null
    base_sequence    int        sequence number of its first record, -1 without
    time_type        string     create: its records have their own times; append: the time at which the broker took them
    delete_horizon   timestamp  when compaction may drop its tombstones and markers; null before it saw them
    crc              bigint     the checksum that it claims to have
    problem          string     null, or: crc (sum does not match), torn (the file ends within it), garbage (no batch header), undecodable (its records cannot be read)
    detail           string     the problem in words
    """),
)

OFFSET_COMMITS = Table(
    "offset_commits",
    "A row per committed offset or its tombstone (key types 0 and 1).",
    _columns("""
    log_partition    int        partition of __consumer_offsets
    log_offset       bigint     of the record
    record_time      timestamp  of the record (1970 if it has none)
    group_id         string     the group
    topic            string     the topic
    partition        int        the topic's partition
    tombstone        boolean    the offset was deleted or has expired
    offset           bigint     the committed offset: what the group reads next (null in tombstones)
    offset_epoch     int        leader epoch that came with it, -1 if none
    metadata         string     the client's own words
    commit_time      timestamp  when the coordinator took it
    expire_time      timestamp  explicit expiry of old clients, else null
    topic_id         string     the topic's id as Kafka prints it (base64url), null if unknown
    member_id        string     who committed, if the log says so (Kohort's record header), "" for a simple consumer
    generation       int        the generation or member epoch that the committer named; null if the log does not say
    producer_id      bigint     -1, or the producer of a transactional commit
    transaction      string     none, committed, aborted, or open (no marker yet)
    key_version      int        type of the key: 0 or 1
    value_version    int        version of the value, null in tombstones
    """),
)

GROUP_GENERATIONS = Table(
    "group_generations",
    "A row per record about a whole group: a classic generation (type 2), or an epoch of a consumer or share group.",
    _columns("""
    log_partition    int        partition of __consumer_offsets
    log_offset       bigint     of the record
    record_time      timestamp  of the record (1970 if it has none)
    group_id         string     the group
    group_type       string     classic, consumer, share
    record_type      int        key type: 2 classic; 3, 6 consumer epoch and target epoch; 11, 12 share likewise
    tombstone        boolean    the group is gone (2, 3, 11)
    generation       int        generation or epoch
    protocol_type    string     "consumer" for consumers; classic only
    protocol         string     the assignor that was voted for; classic only
    leader           string     member id of the leader; classic only
    state_time       timestamp  classic: when the state was entered (the end of the join phase); null if unknown
    member_count     int        classic: members in the record
    join_start       timestamp  when the join phase began (Kohort's header, else null)
    cause            string     why there was a rebalance (Kohort's header, else null)
    trigger          string     the member that caused it (Kohort's header, else null)
    value_version    int        version of the value, null in tombstones
    rest             string     fields of the value that no column holds, in JSON as kafka-dump-log names them; null if none
    """),
)

MEMBER_ASSIGNMENTS = Table(
    "member_assignments",
    "A row per member of a classic generation, and per record about a member of a consumer or share group.",
    _columns("""
    log_partition    int        partition of __consumer_offsets
    log_offset       bigint     of the record
    record_time      timestamp  of the record (1970 if it has none)
    group_id         string     the group
    group_type       string     classic, consumer, share
    record_type      int        2 classic member; 5, 10 who it is; 7, 13 target assignment; 8, 14 current assignment
    tombstone        boolean    the member, or its assignment, is gone
    generation       int        classic: generation; 8, 14: member epoch; else null
    previous_generation int     8, 14: the member epoch before; else null
    member_id        string     the member
    instance_id      string     of a static member
    rack_id          string     5, 10
    client_id        string     as the client says
    client_host      string     where it connected from
    rebalance_timeout_ms int    how long it may take to rejoin
    session_timeout_ms int      how long it may be silent; classic only
    subscribed_topics array<string> topics it wants; null if the subscription is not readable or not in the record
    subscribed_regex string     5: the pattern, null if none
    server_assignor  string     5: the assignor it asks for
    owned            array<struct<topic:string,partition:int>> classic: what its subscription says it owned when it joined; null if it does not say
    assigned         array<struct<topic:string,topic_id:string,partition:int>> its partitions; topic null where only an id is known, topic_id null where only a name is
    revoking         array<struct<topic:string,topic_id:string,partition:int>> 8: still to be given up
    state            int        8, 14: 0 stable, 1 unrevoked, 2 unreleased
    readable         boolean    false: subscription or assignment bytes are not ConsumerProtocol's (another protocol type, or damaged)
    value_version    int        version of the value, null in tombstones
    rest             string     fields of the value that no column holds, in JSON as kafka-dump-log names them; null if none
    """),
)

OTHER_RECORDS = Table(
    "other_records",
    "A row per record that fits no table above: partition metadata, regular expressions, share state, unknown types, undecodable ones.",
    _columns("""
    log_partition    int        partition of __consumer_offsets
    log_offset       bigint     of the record
    record_time      timestamp  of the record (1970 if it has none)
    record_type      int        key type, null without a key
    group_id         string     the group, if the key could be read
    tombstone        boolean    null value
    key              string     as kafka-dump-log shows it (JSON); hex if it cannot be read
    value            string     likewise; null for a tombstone
    problem          string     null, or: unknown (type of a newer Kafka), undecodable, no key
    detail           string     the problem in words
    """),
)

BASE_TABLES = (LOG_BATCHES, OFFSET_COMMITS, GROUP_GENERATIONS, MEMBER_ASSIGNMENTS, OTHER_RECORDS)

OWNERSHIP_INTERVALS = Table(
    "ownership_intervals",
    "Who owned which partition from when to when: a row per uninterrupted ownership.",
    _columns("""
    group_id         string     the group
    group_type       string     classic, consumer
    topic            string     the topic
    partition        int        its partition
    member_id        string     the owner
    instance_id      string     of a static member
    client_id        string     as the client says
    client_host      string     where it connected from
    first_generation int        in which it began
    last_generation  int        in which it was last confirmed
    start_time       timestamp  record time of the first generation's record
    end_time         timestamp  record time of the record that ended it; null: still owned where the log ends
    log_partition    int        partition of __consumer_offsets
    start_log_offset bigint     of the record that began it
    end_log_offset   bigint     of the record that ended it, null if none
    ended_by         string     moved, unassigned, left, emptied, deleted; null if still owned
    """),
)

REBALANCES = Table(
    "rebalances",
    "A row per generation with members (classic), or per target assignment (consumer groups).",
    _columns("""
    group_id         string     the group
    group_type       string     classic, consumer
    generation       int        generation or epoch that it led to
    previous_generation int     the one before in the log; null for the first that is there
    log_partition    int        partition of __consumer_offsets
    log_offset       bigint     of the record
    time             timestamp  of the record
    protocol         string     the assignor
    leader           string     member id of the leader
    cause            string     why, if the log says so
    trigger          string     who, if the log says so
    join_start       timestamp  when the join phase began, if the log says so
    join_ms          bigint     how long members were waited for: join_start to state_time; null if unknown
    sync_ms          bigint     how long the leader took to assign: state_time to the record; null if unknown
    duration_ms      bigint     join_start to the record; null if unknown
    timeout_ms       int        greatest rebalance timeout among its members
    member_count     int        members
    joined           array<string> member ids that the generation before did not have
    left             array<string> member ids that it had and this one has not
    partition_count  int        partitions assigned
    moved            int        partitions whose owner changed (had one before, and has another now)
    forced_moves     int        of these, those whose owner had left or unsubscribed
    avoidable_moves  int        the rest beyond what balance needed: see docs/audit.md
    max_load         int        partitions of the member with most
    min_load         int        partitions of the member with fewest
    idle_members     int        members without a partition
    """),
)

WHAT_IF = Table(
    "what_if",
    "What each assignor would have done at a classic rebalance, given the generation before.",
    _columns("""
    group_id         string     the group
    generation       int        the generation
    log_offset       bigint     of its record
    assignor         string     range, roundrobin, sticky, cooperative-sticky
    moved            int        partitions whose owner would have changed
    interrupted      int        partitions that members would have had to let go: all that they owned, or with cooperative-sticky those that move
    max_load         int        partitions of the member with most
    min_load         int        partitions of the member with fewest
    actual           boolean    the group's own assignor
    """),
)

COMMIT_STEPS = Table(
    "commit_steps",
    "Each visible commit beside the one before it for the same group and partition, and who owned the partition then.",
    _columns("""
    log_partition    int        partition of __consumer_offsets
    log_offset       bigint     of the record
    group_id         string     the group
    topic            string     the topic
    partition        int        its partition
    time             timestamp  commit time (record time in tombstones)
    tombstone        boolean    the offset was deleted
    offset           bigint     the committed offset
    previous_offset  bigint     committed before; null for the first, or after a tombstone
    previous_time    timestamp  when
    previous_topic_id string    with which topic id
    topic_id         string     topic id
    step             bigint     offset - previous_offset
    high             bigint     greatest offset committed before this one; null for the first
    metadata         string     the client's own words
    member_id        string     who committed; null if the log does not say
    generation       int        with which generation; null if the log does not say
    owner            string     member id that owned the partition at that place in the log, null if none
    group_generation int        generation in force then, null if the log has none before it
    group_type       string     classic, consumer, share; null if the group has no such record before it (a simple consumer)
    """),
)

PARTITION_FACTS = Table(
    "partition_facts",
    "What can be said of each partition of a topic that a group has committed to or owned.",
    _columns("""
    group_id         string     the group
    topic            string     the topic
    partition        int        its partition
    topic_id         string     the last known id
    log_partition    int        partition of __consumer_offsets
    commits          bigint     commits in the tables
    tombstones       bigint     deletions
    first_time       timestamp  of the first commit
    last_time        timestamp  of the last commit
    first_offset     bigint     committed first
    last_offset      bigint     committed last; null if deleted since
    max_offset       bigint     greatest ever committed
    rewinds          bigint     commits below the one before
    largest_rewind   bigint     in records
    unregained       boolean    the last commit is below the greatest
    median_step      bigint     of the forward steps
    median_interval_ms bigint   between commits
    owner            string     who owns it at the end of the log
    owner_since      timestamp  since when
    """),
)

FINDINGS = Table(
    "findings",
    "What the checks found, worst first.",
    _columns("""
    check            string     the rule, named like its file in audit/checks
    severity         string     critical, error, warning, info
    group_id         string     concerned group, if one
    topic            string     concerned topic, if one
    partition        int        its partition, if one
    member_id        string     concerned member, if one
    generation       int        concerned generation, if one
    log_partition    int        where in the log
    log_offset       bigint     where in the log
    time             timestamp  when it began, or happened
    until            timestamp  when it ended, if it lasted
    value            double     the measured value that is compared with the threshold; null where there is none
    message          string     what was seen, in one sentence
    advice           string     what to do, in one sentence
    """),
)

CHECK_RESULTS = Table(
    "check_results",
    "A row per check and what became of it; per group where history is missing for some only.",
    _columns("""
    check            string     the rule
    status           string     clean, found, or not evaluable
    severity         string     of its findings
    findings         bigint     how many
    threshold        string     in force, as text
    group_id         string     null, or the group for which it is not evaluable
    reason           string     why it is not evaluable
    """),
)

AUDIT_RUNS = Table(
    "audit_runs",
    "A row per run and log partition: what was read.",
    _columns("""
    run_id           string     of the run
    started          timestamp  when the run began
    finished         timestamp  when it ended
    path             string     folder that was read
    log_partition    int        partition of __consumer_offsets
    first_log_offset bigint     first offset that was there
    from_log_offset  bigint     first offset that was new to this run
    end_log_offset   bigint     offset after the last that was read
    cleaned_to       bigint     offset below which compaction has run (cleaner checkpoint; 0 if it never ran; null if unknown)
    records          bigint     new records
    problem          string     why it could not be read, if so
    """),
)

DERIVED_TABLES = (
    OWNERSHIP_INTERVALS, REBALANCES, WHAT_IF, COMMIT_STEPS, PARTITION_FACTS, FINDINGS, CHECK_RESULTS,
)  # fmt: skip
BASE = tuple(table.name for table in BASE_TABLES)
TABLES = {table.name: table for table in (*BASE_TABLES, *DERIVED_TABLES, AUDIT_RUNS)}
