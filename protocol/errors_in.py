"""The errors that an answer tells: of the whole, and of its topics, partitions, groups or whatever it has rows for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kohort.protocol.wire import Message

ERROR_FIELDS = ("error_code", "partition_error_code")  # how Kafka's schemas call them


def errors_in(message: Message) -> Iterator[int]:
    """All error codes in an answer that are not 0."""
    for name in message.__slots__:
        value = getattr(message, name)
        if name in ERROR_FIELDS:
            if value:
                yield value
        elif isinstance(value, Message):
            yield from errors_in(value)
        elif isinstance(value, Sequence) and value and isinstance(value[0], Message):
            for each in value:
                yield from errors_in(each)
