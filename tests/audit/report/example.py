"""An audit's tables without a log: groups that live through trouble, as rows, from a seed.

Generations come from the assignors, owners and rebalances from derive/, so that they agree with each other; the
findings are written by hand, since the checks have tests of their own.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any

from kohort.audit.derive.history import walk
from kohort.audit.derive.records import GroupLog, GroupRecord, Member
from kohort.audit.derive.what_if import what_if_rows
from kohort.audit.tables import TABLES
from kohort.coordinator.assignors import ASSIGNORS, GroupSpec
from kohort.coordinator.assignors.cooperative_sticky import settled

START_MS = 1_763_251_200_000  # 2025-11-16 00:00 UTC
MINUTE_MS = 60_000
Row = dict[str, Any]


class Example:
    def __init__(self, seed: int = 6) -> None:
        self.random = Random(seed)
        self.rows: dict[str, list[Row]] = {name: [] for name in TABLES}
        self._log_offset = 0

    def add(self, table: str, **values: Any) -> None:
        unknown = values.keys() - {column.name for column in TABLES[table].columns}
        assert not unknown, (table, unknown)
        self.rows[table].append({column.name: values.get(column.name) for column in TABLES[table].columns})

    # --- generations

    def generations(
        self,
        group_id: str,
        topics: dict[str, int],
        *,
        rebalances: int,
        members: int = 4,
        assignor: str = "range",
        headers: bool = True,
        storm: range = range(0),
        prefix: str = "consumer",
    ) -> GroupLog:
        """Members come and go; in the storm one after the other, every few seconds."""
        alive = [self._member_id(prefix) for _ in range(members)]
        owned: dict[str, list[tuple[str, int]]] = {}
        log: GroupLog = []
        now = START_MS
        for number in range(1, rebalances + 1):
            now += self.random.randint(3_000, 9_000) if number in storm else self.random.randint(4, 40) * MINUTE_MS
            cause, trigger = self._shaken(alive, members, prefix) if number > 1 else ("a member joined", alive[0])
            group = GroupSpec({member: list(topics) for member in alive}, topics, owned)
            assigned = settled(group) if assignor == "cooperative-sticky" else ASSIGNORS[assignor](group)
            self._log_offset += self.random.randint(1, 400)
            took = self.random.choice((40, 300, 900, 3_000, 6_000))
            log.append(
                GroupRecord(
                    2,
                    self._log_offset,
                    now,
                    generation=number,
                    protocol=assignor,
                    leader=alive[0],
                    state_ms=now - took // 10 if headers else None,
                    join_start_ms=now - took if headers else None,
                    cause=cause if headers else None,
                    trigger=trigger if headers else None,
                    members=[
                        Member(name, None, prefix, f"/10.2.0.{index + 3}", 60_000, frozenset(topics), assigned[name])
                        for index, name in enumerate(alive)
                    ],
                )
            )
            owned = assigned
        self._store(group_id, log)
        return log

    def _member_id(self, prefix: str) -> str:
        digits = f"{self.random.getrandbits(128):032x}"
        return f"{prefix}-{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"

    def _shaken(self, alive: list[str], members: int, prefix: str) -> tuple[str, str]:
        if len(alive) > 1 and (len(alive) > members or self.random.random() < 0.5):
            gone = alive.pop(self.random.randrange(len(alive)))
            return self.random.choice(("a member left", "a member's session expired")), gone
        alive.append(self._member_id(prefix))
        return "a member joined", alive[-1]

    def _store(self, group_id: str, log: GroupLog) -> None:
        history = walk(log)
        for interval in history.intervals:
            told = interval._asdict()
            self.add(
                "ownership_intervals",
                group_id=group_id,
                log_partition=7,
                start_time=told.pop("start_ms"),
                end_time=told.pop("end_ms"),
                revoking_since=told.pop("revoking_since_ms"),
                **told,
            )
        for rebalance in history.rebalances:
            told = rebalance._asdict()
            self.add(
                "rebalances",
                group_id=group_id,
                log_partition=7,
                time=told.pop("time_ms"),
                join_start=told.pop("join_start_ms"),
                **told,
            )
        for row in what_if_rows(log):
            self.add("what_if", group_id=group_id, **row._asdict())

    # --- commits

    def commits(
        self,
        group_id: str,
        topics: dict[str, int],
        *,
        count: int,
        minutes: int,
        rewinds: Iterable[tuple[int, int, int]] = (),
    ) -> None:
        """`rewinds`: partition, after which of its commits, how far back."""
        back = {(partition, number): far for partition, number, far in rewinds}
        for topic, partitions in topics.items():
            for partition in range(partitions):
                self._commits_of(group_id, topic, partition, count, minutes * MINUTE_MS, back)

    def _commits_of(
        self, group_id: str, topic: str, partition: int, count: int, span_ms: int, back: dict[tuple[int, int], int]
    ) -> None:
        offset = self.random.randint(10_000, 900_000)
        first = offset
        previous: int | None = None
        high = offset
        rewound = largest = 0
        speed = self.random.randint(20, 4_000)
        for number in range(count):
            far = back.get((partition, number))
            if far:
                rewound, largest, offset = rewound + 1, max(largest, far), offset - far
            else:
                offset += self.random.randint(0, 2 * speed)
            self._log_offset += 1
            self.add(
                "commit_steps",
                log_partition=7,
                log_offset=self._log_offset,
                group_id=group_id,
                topic=topic,
                partition=partition,
                time=START_MS + span_ms * number // count,
                tombstone=False,
                offset=offset,
                previous_offset=previous,
                step=None if previous is None else offset - previous,
                high=high,
            )
            previous, high = offset, max(high, offset)
        self.add(
            "partition_facts",
            group_id=group_id,
            topic=topic,
            partition=partition,
            log_partition=7,
            commits=count,
            tombstones=0,
            first_time=START_MS,
            last_time=START_MS + span_ms * (count - 1) // count,
            first_offset=first,
            last_offset=offset,
            max_offset=high,
            rewinds=rewound,
            largest_rewind=largest,
        )

    # --- findings, the log, the run

    def finding(self, check: str, severity: str, message: str, *, minute: float = 0, **where: Any) -> None:
        advice = {"offset_rewind": "Find out who reset the offsets; records between the two are consumed twice."}
        self.add(
            "findings",
            check=check,
            severity=severity,
            message=message,
            time=START_MS + int(minute * MINUTE_MS),
            advice=advice.get(check, "Look at the members that the message names, and at their logs of that minute."),
            log_partition=7,
            **{"log_offset": 1_000, **where},
        )

    def log(self, partitions: int, *, damaged: bool = False) -> None:
        for number in range(partitions):
            size = self.random.randint(1, 60) * 40_000 * (12 if number == 7 else 1)
            for part in range(4):
                self.add(
                    "log_batches",
                    log_partition=number,
                    segment=0,
                    position=part * size // 4,
                    size_bytes=size // 4,
                    log_offset=part * 5_000,
                    last_log_offset=part * 5_000 + 4_999,
                    record_count=5_000,
                    codec="none",
                    transactional=False,
                )
            self.add(
                "audit_runs",
                run_id="2025-11-16T06-00-00",
                started=START_MS,
                finished=START_MS + 9_000,
                path=f"/var/lib/kohort/data/__consumer_offsets-{number}",
                log_partition=number,
                first_log_offset=0,
                from_log_offset=0,
                end_log_offset=20_000,
                cleaned_to=0 if number % 3 else 4_000,
                records=20_000,
            )
        if damaged:
            self.add(
                "log_batches",
                log_partition=3,
                segment=0,
                position=81_920,
                size_bytes=4_096,
                problem="crc",
                detail="the sum in the header is 0x1f00aa07, that of the bytes 0x9c4417f2",
            )
            self.add(
                "audit_runs",
                run_id="2025-11-16T06-00-00",
                started=START_MS,
                path="/var/lib/kohort/data/notes.txt",
                problem="not a log folder",
            )

    def result(self, check: str, status: str, severity: str, findings: int = 0, **more: Any) -> None:
        self.add("check_results", check=check, status=status, severity=severity, findings=findings, **more)
