"""How members of share groups are told what to do, and what they tell; and a member with confluent-kafka.

    python -m tests.clients.share_member BOOTSTRAP TOPIC GROUP NAME=KIND ...

The programs in other languages take the same arguments. Kinds: `implicit` and `explicit` members accept what they get,
`renew` does so after it has renewed its lock once; `release` gives back records whose offsets end in 3, `reject`
rejects them, and both accept the others. Members print a line of JSON for each event, and leave when standard input
says `close` or ends:

    {"member": NAME, "event": "got", "ranges": [[PARTITION, FIRST, LAST, DELIVERY COUNT], ...]}
    {"member": NAME, "event": "said", "kind": "accept", "ranges": ...}          the broker has taken it
    {"member": NAME, "event": "failed", "kind": "accept", "ranges": ..., "text": ...}   it has not, or nobody knows
    {"member": NAME, "event": "trouble", "text": ...}     the broker is away, say
    {"member": NAME, "event": "closed"}

The value of a record is its offset; a member to which it is not tells a `problem`.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import AcknowledgeType, KafkaException, ShareConsumer

POLL_S = 0.2
WORK_S = 0.002

Place = tuple[int, int]  # partition and offset
_output = threading.Lock()

BAD = {"release": AcknowledgeType.RELEASE, "reject": AcknowledgeType.REJECT}  # what becomes of some records


def ranges(places: Mapping[Place, int]) -> list[list[int]]:
    """[partition, first offset, last offset, delivery count], as few as possible."""
    found: list[list[int]] = []
    for (partition, offset), count in sorted(places.items()):
        if found and found[-1][0] == partition and found[-1][2] == offset - 1 and found[-1][3] == count:
            found[-1][2] = offset
        else:
            found.append([partition, offset, offset, count])
    return found


class Member:
    def __init__(self, bootstrap: str, topic: str, group: str, name: str, kind: str) -> None:
        self.name, self.topic, self.kind = name, topic, kind
        self._told: dict[Place, str] = {}  # what the broker has not answered yet
        settings = {
            "bootstrap.servers": bootstrap,
            "client.id": name,
            "group.id": group,
            "share.acknowledgement.mode": "implicit" if kind == "implicit" else "explicit",
            "reconnect.backoff.max.ms": 500,
        }
        self._consumer = ShareConsumer(settings)

    def run(self, closing: threading.Event) -> None:
        self._consumer.set_acknowledgement_commit_callback(self._answered)
        self._consumer.subscribe([self.topic])
        while not closing.is_set():
            try:
                self._take([each for each in self._consumer.poll(POLL_S) if each.error() is None])
            except KafkaException as problem:
                self.say("trouble", text=str(problem))
        self._consumer.close()
        self.say("closed", pending=len(self._told))

    def _take(self, messages: list[Any]) -> None:
        got = {(each.partition(), each.offset()): each.delivery_count() or 0 for each in messages}
        if not got:
            return
        self.say("got", ranges=ranges(got))
        for each in messages:
            answer = BAD.get(self.kind, AcknowledgeType.ACCEPT) if each.offset() % 10 == 3 else AcknowledgeType.ACCEPT
            if each.value() != b"%d" % each.offset():
                self.say("problem", text=f"partition {each.partition()} offset {each.offset()}")
            self._told[each.partition(), each.offset()] = answer.name.lower()
            if self.kind != "implicit":
                self._consumer.acknowledge(each, answer)
        if self.kind != "implicit":
            self._consumer.commit_async()
        time.sleep(WORK_S)

    def _answered(self, offsets: Mapping[Any, Iterable[int]], problem: KafkaException | None) -> None:
        kinds: dict[str, dict[Place, int]] = {}
        for partition, numbers in offsets.items():
            for offset in numbers:
                place = (partition.partition, offset)
                if (kind := self._told.pop(place, None)) is not None:
                    kinds.setdefault(kind, {})[place] = 0
        for kind, places in kinds.items():
            if problem is None:
                self.say("said", kind=kind, ranges=ranges(places))
            else:
                self.say("failed", kind=kind, ranges=ranges(places), text=str(problem))

    def say(self, event: str, **more: Any) -> None:
        line = json.dumps({"member": self.name, "event": event, "at": time.monotonic(), **more})
        with _output:
            print(line, flush=True)


def main(arguments: list[str]) -> None:
    bootstrap, topic, group, *specs = arguments
    closing = threading.Event()
    members = [Member(bootstrap, topic, group, *spec.split("=")) for spec in specs]
    threads = [threading.Thread(target=member.run, args=(closing,)) for member in members]
    for thread in threads:
        thread.start()
    for line in sys.stdin:
        if line == "close\n":
            break
    closing.set()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main(sys.argv[1:])
