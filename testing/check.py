"""`kafka.check()`: the audit's rules over what a test has left in the broker.

The rules read the log of the groups, where each generation and each commit stands with its member. docs/audit.md lists
them, and which of them look at a test. They need numpy and pyarrow: `pip install 'kohort[testing]'`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from kohort.audit.result import SEVERITIES
from kohort.audit.run.in_a_test import Checked, Finding, check_log, in_full
from kohort.testing.names import UnknownName, did_you_mean
from kohort.testing.views import TopicPartition

if TYPE_CHECKING:
    from kohort.testing.host import Host


class CheckFailed(AssertionError):
    """There are findings; the text tells them."""

    def __init__(self, findings: tuple[Finding, ...]) -> None:
        super().__init__(in_full(findings))
        self.findings = findings


def check(
    host: Host, folder: str, *, checks: Collection[str] | None, ignore: Collection[str],
    thresholds: Mapping[str, float] | None, group: str | None, fail_on: str,
) -> Checked:  # fmt: skip
    if fail_on not in SEVERITIES:
        raise UnknownName(f"there is no severity {fail_on!r}{did_you_mean(fail_on, SEVERITIES)}")
    found = check_log(
        host.disk, folder, checks=checks, ignore=ignore, thresholds=thresholds, group=group,
        now_ms=host.run(host.time.now_ms), topics=lambda: host.run(lambda: _ends(host)),
        log_partition_count=host.config.offsets_topic_num_partitions,
    )  # fmt: skip
    if bad := found.at_least(fail_on):
        raise CheckFailed(bad)
    return found


def _ends(host: Host) -> dict[TopicPartition, tuple[int, int]]:
    """Start and end offset of every partition."""
    return {
        (topic.name, each.index): (each.log.log_start_offset, each.high_watermark)
        for topic in host.broker.catalog
        for each in topic.partitions
        if not topic.is_internal
    }
