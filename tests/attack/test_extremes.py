"""The generated requests are ones that a broker must read."""

from __future__ import annotations

from kohort.protocol.codec import request_decoder
from kohort.protocol.headers import request_header
from tests.attack.extremes import extremes, served


def test_the_generated_requests_are_well_formed() -> None:
    """Otherwise they would test nothing but the refusal of malformed ones."""
    for api in served():
        for version in range(api.min_version, api.max_version + 1):
            decode = request_decoder(api.key, version)
            for each in extremes(api, version, counts=(50,), limit=300, max_bytes=1_100_000):
                decode(each.body(bytes(range(16))), 0)


def test_a_frame_has_a_header_that_names_its_api() -> None:
    each = next(extremes(served()[0], served()[0].max_version))
    assert each.frame(bytes(16))[4:].startswith(request_header(each.api.key, each.version, 1, "attacker"))
