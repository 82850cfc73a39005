"""Incidents on a real Kafka 4.3.1, recorded: the logs of their groups, and what `kohort why` has to say about each.

python -m tests.why.recorded_kafka      makes tests/data/why_kafka_4.3.1.tar.gz anew
"""

from __future__ import annotations

import io
import json
import tarfile
import tempfile
from pathlib import Path

from tests.clients.group_broker import KafkaBroker
from tests.why.incidents import Expected
from tests.why.staged import SETTINGS, explanations, problem_of, stage_all

RECORDING = Path(__file__).parent.parent / "data" / "why_kafka_4.3.1.tar.gz"
EXPECTED = "expected.json"


def unpack(folder: Path) -> dict[str, Expected]:
    with tarfile.open(RECORDING) as recording:
        recording.extractall(folder, filter="data")
    expected: dict[str, list[str]] = json.loads((folder / EXPECTED).read_text(encoding="utf-8"))
    return {group: Expected(*each) for group, each in expected.items()}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        with KafkaBroker(Path(folder), **SETTINGS) as broker:
            expected = stage_all(broker)
        data = Path(folder) / "kafka" / "data"
        for group, each in expected.items():
            problem = problem_of(explanations(data, group), each)
            assert problem is None, f"{group}: {problem}"
        with tarfile.open(RECORDING, "w:gz") as recording:
            for path in sorted([*data.glob("__consumer_offsets-*/*.log"), *data.glob("*-0/partition.metadata")]):
                recording.add(path, str(path.relative_to(data)))
            raw = json.dumps(expected, indent=2).encode()
            info = tarfile.TarInfo(EXPECTED)
            info.size = len(raw)
            recording.addfile(info, io.BytesIO(raw))


if __name__ == "__main__":
    main()
