from kohort.coordinator.share_state.headers import Cause, Told, read_share_state_headers, share_state_headers


def test_headers_say_why_a_state_was_changed_and_whose_records_they_were() -> None:
    headers = share_state_headers(Cause.LOCK_TIMEOUT, "m-1")
    assert headers == ((b"kohort.cause", b"lock timeout"), (b"kohort.member", b"m-1"))
    assert read_share_state_headers(headers) == Told("lock timeout", "m-1")


def test_a_state_that_is_about_no_member_names_none() -> None:
    assert share_state_headers(Cause.INITIALIZE) == ((b"kohort.cause", b"initialize"),)
    assert read_share_state_headers(share_state_headers(Cause.ALTER)) == Told("alter", "")


def test_records_of_kafka_say_nothing() -> None:
    assert read_share_state_headers(()) == Told("", "")


def test_headers_that_are_no_text_are_read_all_the_same() -> None:
    assert read_share_state_headers([(b"kohort.cause", None), (b"kohort.member", b"\xff")]) == Told("", "\ufffd")
