"""The same requests to Apache Kafka and to Kohort, and their answers compared field by field: `make parity`.

scenarios/         what is asked: short functions whose names are sentences, run once per broker and version
pairs.py           settings of the brokers
peer.py            one broker as a scenario sees it; keeps a transcript of what was asked and answered
compare.py         two transcripts -> differences, one line each
differences.py     the differences that are allowed, each with its reason; docs/protocol-support.md shows them
transaction_story.py   producers of transactions; transaction_names.py, transaction_log.py: what they leave behind
run.py             starts both brokers, runs all, prints
assignments.py     random groups of KIP-848, whose partitions both brokers must share out alike
share_assignments.py   the same for share groups
random_stories/    random requests of members of both protocols, whose answers must be the same in all fields
chosen_ids.py      Kohort with the ids that Kafka has made, for these stories
coordinator_probe.py   whether a coordinator knows a topic already
"""
