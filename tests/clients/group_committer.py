"""Several members of one group with confluent-kafka that commit ever higher offsets of their partitions.

    python -m tests.clients.group_committer BOOTSTRAP TOPIC SESSION_MS GROUP=ASSIGNOR ...      one member for each

They say what the members of group_member.py say. There need be no records: an offset is a number.
"""

from __future__ import annotations

import threading
from typing import Any

from confluent_kafka import KafkaException, TopicPartition

from tests.clients.group_member import Arguments, Membership, arguments, wait_for_close
from tests.clients.group_member_confluent import consumer_of

TIMEOUT_S = 30


def run(told: Arguments, membership: Membership, closing: threading.Event) -> None:
    consumer = consumer_of(told, membership)
    offsets: dict[int, int | None] = {}  # the last committed offset by partition owned; None: not known yet

    def assigned(_consumer: Any, partitions: list[Any]) -> None:
        offsets.update(dict.fromkeys(each.partition for each in partitions))
        membership.say("assigned", partitions=[each.partition for each in partitions])

    def revoked(_consumer: Any, partitions: list[Any]) -> None:
        for each in partitions:
            offsets.pop(each.partition, None)
        membership.say("revoked", partitions=[each.partition for each in partitions])

    consumer.subscribe([told.topic], on_assign=assigned, on_revoke=revoked, on_lost=revoked)
    while not closing.is_set():
        consumer.poll(0.01)
        try:
            unknown = [TopicPartition(told.topic, p) for p, offset in offsets.items() if offset is None]
            if unknown:
                for each in consumer.committed(unknown, TIMEOUT_S):
                    offsets[each.partition] = max(each.offset, 0)  # -1001: none yet
            next_ones = {p: offset + 1 for p, offset in offsets.items() if offset is not None}
            if next_ones:
                offsets.update(next_ones)  # even if the commit fails: no offset is committed twice
                asked = [TopicPartition(told.topic, p, offset) for p, offset in next_ones.items()]
                answered = consumer.commit(offsets=asked, asynchronous=False)
                done = {each.partition: each.offset for each in answered if each.error is None}
                membership.say("committed", offsets=done)
        except KafkaException as problem:
            membership.say("commit_failed", text=str(problem))
    consumer.close()
    membership.say("closed")


def main() -> None:
    told = arguments()
    closing = threading.Event()
    threads = [threading.Thread(target=run, args=(told, each, closing)) for each in told.memberships]
    for thread in threads:
        thread.start()
    wait_for_close()
    closing.set()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
