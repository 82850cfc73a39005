"""What is made of records that are rare, or that no broker writes on demand; and that the audit counts the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from kohort.audit.decode import Wanted
from kohort.audit.decode.find import find_folders
from kohort.audit.pipeline import NEEDED, decode, derive
from kohort.history import cause as codes
from kohort.history.explain import Explanation, explain
from kohort.history.group_history import GroupHistory
from kohort.history.records import Reader
from kohort.history.text import text_of
from tests.why.log import commits, generation, has_reached, new_epoch, new_target, target, tombstone
from tests.why.recorded_kafka import unpack
from tests.why.staged import explanations

A, B, C = "a-1", "b-1", "c-1"
ANNA, BERT, CARL = "anna", "bert", "carl"


def history_of(*batches: bytes, keep: int = 100) -> GroupHistory:
    history, reader = GroupHistory("g", keep=keep), Reader("g")
    for batch in batches:
        for record in reader.read(batch):
            history.add(record)
    history.flush()
    return history


def last_of(*batches: bytes) -> Explanation:
    return explain(history_of(*batches))[-1]


def working(members: dict[str, list[int]], start_ms: int, end_ms: int) -> list[bytes]:
    """Members that commit twice a second."""
    places = [number for numbers in members.values() for number in numbers]
    return [commits("g", places, now_ms) for now_ms in range(start_ms, end_ms, 500)]


def test_a_member_that_everybody_waited_for_in_vain_did_not_rejoin_in_time() -> None:
    """It commits for as long as the others do, and then 20 s pass, which is its rebalance timeout."""
    found = last_of(
        generation("g", 1, {A: (ANNA, [0, 1]), B: (BERT, [2, 3])}, 1_000, rebalance_ms=20_000),
        *working({A: [0, 1], B: [2, 3]}, 1_500, 10_000),
        generation(
            "g", 2, {A: (ANNA, [0, 1]), C: (CARL, [2, 3])}, 30_100, since_ms=30_000, rebalance_ms=20_000, offset=1
        ),
    )
    assert (found.cause.code, [who.client_id for who in found.cause.who]) == (codes.NOT_REJOINED, [BERT])
    assert any("max.poll.records" in advice for advice in found.advice)


def test_a_member_that_never_committed_left_or_fell_silent() -> None:
    found = last_of(
        generation("g", 1, {A: (ANNA, [0]), B: (BERT, [1])}, 1_000),
        generation("g", 2, {A: (ANNA, [0, 1])}, 60_000, offset=1),
    )
    assert (found.cause.code, found.is_inferred) == (codes.GONE, True)


@pytest.mark.parametrize(
    ("silent_ms", "code"),
    [(300, codes.LEFT), (10_500, codes.SILENT), (40_000, codes.GONE), (60_500, codes.SLOW_POLL), (500_000, codes.GONE)],
)
def test_how_long_a_member_was_silent_tells_how_it_went(silent_ms: int, code: str) -> None:
    """Its session ends after 10 s, and 60 s are its max.poll.interval.ms."""
    gone_ms = 5_000 + silent_ms
    found = last_of(
        generation("g", 1, {A: (ANNA, [0]), B: (BERT, [1])}, 1_000),
        *working({A: [0], B: [1]}, 1_500, 5_001),
        *working({A: [0]}, 5_500, gone_ms + 1),
        generation("g", 2, {A: (ANNA, [0, 1])}, gone_ms + 100, offset=1),
    )
    assert (found.cause.code, [who.client_id for who in found.cause.who]) == (code, [BERT])


def test_a_rebalance_without_any_change_was_asked_for() -> None:
    members = {A: (ANNA, [0]), B: (BERT, [1])}
    found = last_of(generation("g", 1, members, 1_000), generation("g", 2, members, 5_000, offset=1))
    assert found.cause.code == codes.UNKNOWN
    assert "most often the leader (anna (10.0.0.1))" in found.cause.text


def test_a_log_that_was_compacted_does_not_invent_a_first_start() -> None:
    found = last_of(generation("g", 41, {A: (ANNA, [0])}, 1_000))
    assert "first generation that the log still has" in found.cause.text


def test_generations_that_never_got_an_assignment_are_told() -> None:
    found = last_of(
        generation("g", 1, {A: (ANNA, [0])}, 1_000),
        generation("g", 4, {A: (ANNA, []), B: (BERT, [0])}, 2_000, offset=1),
    )
    assert any(note.startswith("2 generations before this one") for note in found.notes)


def test_another_leader_epoch_is_another_coordinator() -> None:
    found = last_of(
        generation("g", 1, {A: (ANNA, [0])}, 1_000, leader_epoch=3),
        generation("g", 2, {A: (ANNA, []), B: (BERT, [0])}, 2_000, offset=1, leader_epoch=4),
    )
    assert any("started again, or another broker took over" in note for note in found.notes)


def test_a_deleted_group_begins_anew() -> None:
    found = explain(
        history_of(
            generation("g", 1, {A: (ANNA, [0])}, 1_000), tombstone("g", 2_000, offset=1),
            generation("g", 1, {B: (BERT, [0])}, 3_000, offset=2),
        )
    )  # fmt: skip
    assert [each.cause.code for each in found] == [codes.FIRST, codes.FIRST]
    assert found[-1].moved is not None
    assert found[-1].moved.moved == 0


def test_what_the_headers_of_a_kohort_say_is_not_called_inferred() -> None:
    headers = (
        (b"kohort.join.start.ms", b"2000"), (b"kohort.cause", b"member left: closing"), (b"kohort.trigger", b"b-1"),
        (b"kohort.last.joined", b"a-1"), (b"kohort.last.joined.ms", b"5500"),
    )  # fmt: skip
    found = last_of(
        generation("g", 1, {A: (ANNA, [0]), B: (BERT, [1]), C: (CARL, [2])}, 1_000),
        generation("g", 2, {A: (ANNA, [0, 1]), C: (CARL, [2])}, 6_000, offset=1, headers=headers, since_ms=5_600),
    )
    assert (found.cause.code, found.is_inferred) == (codes.LEFT, False)
    text = text_of(found)
    assert "bert (10.0.0.1) left, with the reason: closing." in text
    assert "anna (10.0.0.1) joined last, 3.5 s after the rebalance had begun." in text
    assert "4.0 s: 3.6 s until all had rejoined, 400 ms until the leader had assigned." in text
    assert "t 0-2: for 4.0 s" in text


@pytest.mark.parametrize("value", [b"", b"-1", b"x", b"9" * 40, None])
def test_headers_that_make_no_sense_are_no_news(value: bytes | None) -> None:
    headers = ((b"kohort.join.start.ms", value), (b"kohort.cause", b"\xff"), (b"kohort.trigger", value))
    members = {A: (ANNA, [0])}
    found = last_of(generation("g", 1, members, 1), generation("g", 2, members, 9, offset=1, headers=headers))
    assert text_of(found)


def test_memory_is_bounded_by_the_rebalances_that_are_kept() -> None:
    batches = [generation("g", number, {A: (ANNA, [0])}, number * 1_000, offset=number) for number in range(1, 51)]
    history = history_of(*batches, keep=10)
    assert (len(history.rebalances), history.dropped) == (10, 40)
    assert [each.generation for each in history.rebalances] == list(range(41, 51))
    assert len(explain(history)) == 10


def test_members_with_one_name_are_told_by_their_ids() -> None:
    found = last_of(
        generation("g", 1, {"x-1": ("x", [0]), "x-2": ("x", [1])}, 1_000),
        generation("g", 2, {"x-1": ("x", [0, 1])}, 2_000, offset=1),
    )
    assert found.cause.text.startswith("x-2 (10.0.0.1) ")


def test_records_of_other_groups_and_cut_batches_are_passed_over() -> None:
    reader = Reader("g")
    other = generation("gg", 1, {A: (ANNA, [0])}, 1_000) + commits("a g", [0], 1_000)
    assert list(reader.read(other)) == []
    assert list(reader.read(generation("g", 1, {A: (ANNA, [0])}, 1_000)[:-3])) == []
    assert reader.damaged_batches == 1


def test_the_audit_counts_the_same_rebalances_and_moves(tmp_path: Path) -> None:
    """Of classic groups on a real Kafka, in all staged incidents."""
    compared = 0
    for group in unpack(tmp_path):
        folders, _ = find_folders([str(tmp_path)], group)
        base = decode(folders[0], Wanted(group=group), NEEDED)
        rows = derive(folders[0].log_partition, base)["rebalances"].to_pylist()
        audited = {
            row["generation"]: (row["moved"], row["forced_moves"], row["avoidable_moves"])
            for row in rows
            if row["group_id"] == group and row["group_type"] == "classic"
        }
        for each in explanations(tmp_path, group):
            known = audited.get(each.rebalance.generation)
            if each.is_rebalance and each.moved is not None and known is not None and each.rebalance.members:
                assert (each.moved.moved, each.moved.forced, each.moved.needless) == known, text_of(each)
                compared += 1
    assert compared > 30


def test_a_member_that_worked_until_it_rejoined_and_committed_then_was_the_slowest() -> None:
    found = last_of(
        generation("g", 1, {A: (ANNA, [0]), B: (BERT, [1])}, 1_000),
        *working({A: [0], B: [1]}, 1_500, 5_001),
        commits("g", [0], 9_000),
        generation("g", 2, {A: (ANNA, [0]), B: (BERT, []), C: (CARL, [1])}, 9_100, offset=1),
    )
    assert found.slowest is not None
    assert (found.slowest.member.client_id, found.slowest.late_ms, found.slowest.is_inferred) == (ANNA, 4_000, True)


def test_a_member_that_was_silent_before_the_others_was_the_slowest_if_nobody_committed_at_the_end() -> None:
    found = last_of(
        generation("g", 1, {A: (ANNA, [0]), B: (BERT, [1])}, 1_000),
        *working({A: [0], B: [1]}, 1_500, 5_001),
        *working({B: [1]}, 5_500, 8_001),
        generation("g", 2, {A: (ANNA, [0]), B: (BERT, []), C: (CARL, [1])}, 12_000, offset=1),
    )
    assert found.slowest is not None
    assert (found.slowest.member.client_id, found.slowest.late_ms, found.slowest.silent_ms) == (ANNA, 4_000, 7_000)


def test_nobody_is_called_slow_if_all_stopped_together() -> None:
    found = last_of(
        generation("g", 1, {A: (ANNA, [0]), B: (BERT, [1])}, 1_000),
        *working({A: [0], B: [1]}, 1_500, 5_001),
        generation("g", 2, {A: (ANNA, [0]), B: (BERT, []), C: (CARL, [1])}, 9_000, offset=1),
    )
    assert found.slowest is None


def test_moves_that_were_not_needed_are_counted_among_all_of_them_and_listed() -> None:
    found = last_of(
        generation("g", 1, {A: (ANNA, [0, 1, 2]), B: (BERT, [3, 4, 5])}, 1_000),
        generation("g", 2, {A: (ANNA, [0, 1]), B: (BERT, [2, 3]), C: (CARL, [4, 5])}, 2_000, offset=1),
    )
    assert (
        "needless 1 of these 3 moves was not needed, because 2 would have sufficed:"
        " t 2 from anna to bert; t 4 from bert to carl; t 5 from bert to carl."
    ) in text_of(found)


def test_moves_of_which_none_was_needed_are_all_listed() -> None:
    found = last_of(
        generation("g", 1, {A: (ANNA, [0]), B: (BERT, [1])}, 1_000),
        generation("g", 2, {A: (ANNA, [1]), B: (BERT, [0])}, 2_000, offset=1),
    )
    assert "needless None of these 2 moves was needed: t 0 from anna to bert; t 1 from bert to anna." in text_of(found)


def test_moves_between_members_of_kip_848_with_different_subscriptions_are_not_called_forced() -> None:
    """The log has ids of topics where members have names."""
    one, two = b"1" * 16, b"2" * 16
    walked = GroupHistory("g", topic_names=[(one, "t"), (two, "u")])
    subscriptions = {A: ["t", "u"], B: ["t"]}
    for epoch, targets in (
        (1, {A: {one: [0, 1], two: [0]}, B: {one: [2, 3]}}),
        (2, {A: {one: [2, 3], two: [0]}, B: {one: [0, 1]}}),
    ):
        for record in Reader("g").read(target("g", epoch, subscriptions, targets, epoch * 1_000, offset=epoch * 10)):
            walked.add(record)
    found = explain(walked)[-1]
    assert found.moved is not None
    assert (found.moved.moved, found.moved.forced, found.moved.needless) == (4, 0, 4)
    assert "None of these 4 moves was needed: t 0 from a-1 to b-1" in text_of(found)


def members_that_go_while_others_wait() -> list[bytes]:
    """Two consumers called anna die while two newcomers, called anna too, still wait for partitions of theirs."""
    return [
        new_epoch("g", 1, 1_000, begin_ms=1_000, cause="member joined", trigger="M1", joined={"M1": "anna"}),
        new_epoch("g", 2, 1_001, begin_ms=1_000, cause="member joined", trigger="M2", joined={"M2": "anna"}),
        new_target("g", 2, {"M1": [0, 1], "M2": [2, 3]}, 2_000, reached=["M1", "M2"]),
        new_epoch("g", 3, 5_000, begin_ms=5_000, cause="member joined", trigger="N1", joined={"N1": "anna"}),
        new_epoch("g", 4, 5_001, begin_ms=5_000, cause="member joined", trigger="N2", joined={"N2": "anna"}),
        new_target("g", 4, {"M1": [0], "M2": [2], "N1": [1], "N2": [3]}, 6_000),
        new_epoch("g", 5, 40_000, begin_ms=5_000, cause="session expired", trigger="M1", gone=["M1"]),
        new_epoch("g", 6, 40_500, begin_ms=5_000, cause="session expired", trigger="M2", gone=["M2"]),
        new_target("g", 6, {"N1": [0, 1], "N2": [2, 3]}, 41_000, reached=["N1", "N2"]),
    ]


def test_a_rebalance_begins_with_its_own_epoch_if_the_one_before_never_ended() -> None:
    waiting, after = explain(history_of(*members_that_go_while_others_wait()))[-2:]
    assert (waiting.begin_ms, after.begin_ms) == (5_000, 40_000)
    assert "the target was there after 1.0 s; not every member got its share." in text_of(waiting)
    assert "took     1.0 s until every member had its share; the target was there after 1.0 s." in text_of(after)


def test_epochs_of_one_cause_before_one_target_are_told_once_with_all_culprits() -> None:
    waiting, after = explain(history_of(*members_that_go_while_others_wait()))[-2:]
    assert [each.cause.code for each in (waiting, after)] == [codes.JOINED, codes.SILENT]
    assert [who.member_id for who in after.cause.who] == ["M1", "M2"]
    assert (waiting.also, after.also) == ((), ())


def test_random_member_ids_stand_behind_the_name_that_members_share() -> None:
    (_, waiting, _) = explain(history_of(*members_that_go_while_others_wait()))
    assert waiting.cause.text == "anna N1 (10.0.0.1) and anna N2 (10.0.0.1) joined."


def test_what_a_rebalance_cost_a_group_of_kip_848_is_what_its_log_says() -> None:
    found = last_of(
        new_epoch("g", 1, 1_000, begin_ms=1_000, cause="member joined", trigger="M", joined={"M": "anna"}),
        new_target("g", 1, {"M": [0, 1, 2, 3]}, 1_000, reached=["M"]),
        new_epoch("g", 2, 5_000, begin_ms=5_000, cause="member joined", trigger="N", joined={"N": "bert"}),
        new_target("g", 2, {"M": [0, 1], "N": [2, 3]}, 5_000),
        has_reached("g", 2, "M", [0, 1], 6_000),
        has_reached("g", 2, "N", [2, 3], 10_000),  # with its next heartbeat
    )
    assert [way.partition_seconds for way in found.ways if way.is_actual] == [8.0]


def test_the_wait_of_a_new_group_is_not_called_somebodys_slowness() -> None:
    headers = (
        (b"kohort.join.start.ms", b"1000"), (b"kohort.cause", b"member joined"), (b"kohort.trigger", b"a-1"),
        (b"kohort.last.joined", b"b-1"), (b"kohort.last.joined.ms", b"1003"),
    )  # fmt: skip
    members = {A: (ANNA, [0]), B: (BERT, [1])}
    found = last_of(generation("g", 1, members, 4_010, headers=headers, since_ms=4_000))
    assert (
        "took     3.0 s: 3 ms until all had joined, 3.0 s in which a new group waits for more members"
        " (group.initial.rebalance.delay.ms), 10 ms until the leader had assigned." in text_of(found)
    )


def test_partitions_that_a_share_group_can_read_by_now_are_not_called_new_topics(tmp_path: Path) -> None:
    unpack(tmp_path)
    texts = "\n".join(map(text_of, explanations(tmp_path, "a-member-joins-a-share-group")))
    assert "exists now" not in texts
    assert "The partitions of the topic a-member-joins-a-share-group.t can be read now." in texts


def test_a_topic_that_all_members_drop_at_once_was_deleted_most_likely() -> None:
    """librdkafka subscribes to topics that exist; a Java client goes on subscribing to one that is gone."""
    members = {A: (ANNA, [0]), B: (BERT, [1])}
    found = last_of(
        generation("g", 1, members, 1_000, topics=["t", "doomed"]), generation("g", 2, members, 5_000, offset=1)
    )
    assert (found.cause.code, found.cause.topics) == (codes.GONE_TOPIC, ("doomed",))
    assert found.cause.text.startswith("anna (10.0.0.1) and bert (10.0.0.1) no longer subscribe to doomed. All members")
