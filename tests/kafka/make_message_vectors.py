"""Makes tests/data/message_vectors.xz: what Kafka's own Java classes make of random messages.

    make vectors

100 messages for each API, version and direction, and for each kind of log record. The file is a sequence of

    name, version, count as text line; then per message: uint16 length, bytes

compressed. Values are not kept: kafka-python and we must both read the same ones from the bytes.
"""

from __future__ import annotations

import base64
import json
import lzma
import random
from collections.abc import Iterator
from pathlib import Path
from struct import pack, unpack_from

from tests.kafka.jars import java
from tests.protocol.random_messages import kinds, random_values, to_java

VECTORS = Path(__file__).parent.parent / "data" / "message_vectors.xz"
COUNT = 100


def main() -> None:
    rng = random.Random(4301)
    lines, heads = [], []
    for kind in kinds():
        for version in kind.versions():
            heads.append(f"{kind.name} {version} {COUNT}\n".encode())
            for _ in range(COUNT):
                values = to_java(kind.message.struct, version, random_values(kind, version, rng))
                lines.append(f"{kind.name} {version} {json.dumps(values)}\n")
    answers = java(str(Path(__file__).parent / "MessageVectors.java"), stdin="".join(lines)).split("\n")[:-1]
    assert len(answers) == len(lines)
    packed = [base64.b64decode(answer) for answer in answers]
    pieces = []
    for index, head in enumerate(heads):
        pieces.append(head)
        pieces += [pack(">H", len(raw)) + raw for raw in packed[index * COUNT : (index + 1) * COUNT]]
    VECTORS.write_bytes(lzma.compress(b"".join(pieces), preset=9))
    print(f"{len(packed)} messages, {VECTORS.stat().st_size} bytes in {VECTORS.name}")


def read_vectors() -> Iterator[tuple[str, int, list[bytes]]]:
    data = lzma.decompress(VECTORS.read_bytes())
    pos = 0
    while pos < len(data):
        end = data.index(b"\n", pos)
        name, version, count = data[pos:end].decode().split()
        pos = end + 1
        messages = []
        for _ in range(int(count)):
            (length,) = unpack_from(">H", data, pos)
            messages.append(data[pos + 2 : pos + 2 + length])
            pos += 2 + length
        yield name, int(version), messages


if __name__ == "__main__":
    main()
