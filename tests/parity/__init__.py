"""The same requests to Apache Kafka and to Kohort, and their answers compared field by field: `make parity`.

scenarios/      what is asked: short functions whose names are sentences, run once per broker and version
peer.py         one broker as a scenario sees it; keeps a transcript of what was asked and answered
compare.py      two transcripts -> differences, one line each
differences.py  the differences that are allowed, each with its reason; docs/protocol-support.md shows them
run.py          starts both brokers, runs all, prints
"""
