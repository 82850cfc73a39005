"""Writes <codec>-<client>.bin beside itself: record batches as two real clients and a real Kafka leave them.

    python make_batches.py HOST:PORT LOG_DIR [KAFKA_LIBS_DIR]

HOST:PORT is a running Apache Kafka and LOG_DIR its log.dirs folder on this machine. confluent-kafka produces
the "librdkafka" files, kafka-console-producer from KAFKA_LIBS_DIR (Kafka's jars) the "java" ones.
"""

import subprocess
import sys
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
RECORDS = [(b"key-%d" % n, b"value-%d-" % n + b"abc" * 30) for n in range(40)]


def main(bootstrap: str, log_dir: Path, libs: Path | None) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    clients = ("librdkafka", "java") if libs else ("librdkafka",)
    names = [f"{codec}-{client}" for codec in CODECS for client in clients]
    for future in admin.create_topics([NewTopic(name, 1, 1) for name in names]).values():
        future.result()
    for name in names:
        codec, client = name.split("-")
        if client == "java":
            assert libs is not None
            produce_java(bootstrap, name, codec, libs)
        else:
            produce_librdkafka(bootstrap, name, codec)
        data = (log_dir / f"{name}-0" / f"{0:020d}.log").read_bytes()
        Path(__file__).with_name(f"{name}.bin").write_bytes(data)
        print(name, len(data))


def produce_librdkafka(bootstrap: str, topic: str, codec: str) -> None:
    config = {"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 200}
    producer = Producer(config)
    for key, value in RECORDS:
        producer.produce(topic, value, key, headers=[("who", b"test"), ("none", None)])
    producer.flush()


def produce_java(bootstrap: str, topic: str, codec: str, libs: Path) -> None:
    lines = "".join(f"who:test\t{key.decode()}\t{value.decode()}\n" for key, value in RECORDS)
    tool = "org.apache.kafka.tools.ConsoleProducer"
    options = f"--bootstrap-server {bootstrap} --topic {topic} --compression-codec {codec} --timeout 500"
    options += " --reader-property parse.key=true --reader-property parse.headers=true"
    command = ["java", "-cp", f"{libs}/*", tool, *options.split()]
    subprocess.run(command, input=lines.encode(), check=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]) if len(sys.argv) > 3 else None)
