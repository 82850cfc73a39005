"""Random stories of groups on Kafka and on Kohort: every answer must be the same, field by field.

    python -m tests.parity.random_stories --stories 200 --seed 1

A story is about one group. Members of both protocols join, heartbeat, reconcile, sync, commit, leave, come back under
their instance ids and change their protocol; offsets are committed, fetched and deleted by members and by others;
topics are made, grow and are deleted; the group gets settings, or is deleted. Most requests are what a client would
send next. The others have one thing wrong: a stale epoch, somebody else's id, a field that is missing.

Both brokers make the same ids (see chosen_ids.py). After each step, what both show of the group is compared as well:
ConsumerGroupDescribe, DescribeGroups and all its offsets. Kafka shows some things a moment later than it has answered,
so there is time until both agree.

What depends on time is left out: no session, rebalance or interval ends while a story is told. A regular expression is
resolved in the background and at most every ten seconds, so a story has at most one, and its topics do not change then.

story.py      what happens next: a step is chosen at random
actor.py      a member as it sees itself, and what it learns from answers
mistakes.py   what can be wrong with a request
stage.py      sends a request to both brokers, waits for the answers, and compares them
world.py      both brokers, with their topics and connections
"""
