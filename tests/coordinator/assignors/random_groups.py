"""Groups made up from a seed: many members or few, same topics or not, and what they owned before."""

from __future__ import annotations

from random import Random

from kohort.coordinator.assignors import ASSIGNORS, Assignment, GroupSpec, Partition

LETTERS = "ABCDEFGHIJKL"  # a hash map of Java keeps one-letter words that are neighbours in the order of the alphabet


def random_group(random: Random, *, letters: bool = False) -> GroupSpec:
    topics = [f"topic-{number}" for number in range(random.randint(1, 5))]
    partitions = {topic: random.choice((1, 2, 3, 5, 8, 13)) for topic in topics}
    size = random.randint(1, len(LETTERS))
    names = [f"consumer-{random.randrange(10_000):04}-{number}" for number in range(size)]
    members = list(LETTERS[:size]) if letters else names
    same_for_all = random.random() < 0.5
    subscriptions = {
        m: topics if same_for_all else random.sample(topics, random.randint(1, len(topics))) for m in members
    }
    instances = {member: f"instance-{random.randrange(1000)}-{member}" for member in members if random.random() < 0.2}
    group = GroupSpec(subscriptions, partitions, {}, instances)
    return GroupSpec(subscriptions, partitions, _owned_before(random, group), instances)


def _owned_before(random: Random, group: GroupSpec) -> Assignment:
    """Nothing, anything, or what an assignor gave when some members were not there yet and others still were."""
    kind = random.choice(("nothing", "anything", *ASSIGNORS))
    if kind == "nothing":
        return {}
    if kind == "anything":
        return _dealt_at_random(random, group)
    there = random.sample(sorted(group.subscriptions), random.randint(1, len(group.subscriptions)))
    gone = [f"gone-{number}" for number in range(random.randint(0, 4))]
    subscriptions = {member: group.subscriptions[member] for member in there} | {
        member: sorted(group.partitions) for member in gone
    }
    had = ASSIGNORS[kind](GroupSpec(subscriptions, group.partitions))
    return {member: partitions for member, partitions in had.items() if member in group.subscriptions}


def _dealt_at_random(random: Random, group: GroupSpec) -> Assignment:
    owned: Assignment = {member: [] for member in group.subscriptions}
    everything: list[Partition] = [(t, number) for t, count in group.partitions.items() for number in range(count)]
    for partition in everything:
        if random.random() < 0.8:
            owned[random.choice(list(owned))].append(partition)
        if random.random() < 0.02:
            owned[random.choice(list(owned))].append(partition)  # perhaps claimed twice, as after a lost session
    return {member: list(dict.fromkeys(partitions)) for member, partitions in owned.items()}


def moves(owned: Assignment, assigned: Assignment) -> int:
    """Partitions that had one owner among the members and now have another."""
    now = {partition: member for member, partitions in assigned.items() for partition in partitions}
    return sum(now.get(partition, member) != member for member, partitions in owned.items() for partition in partitions)


def loads(assigned: Assignment) -> list[int]:
    return sorted(len(partitions) for partitions in assigned.values())
