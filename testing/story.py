"""What has happened in a broker so far, as text for the report of a test that failed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kohort.testing.group import Seen as SeenGroup
from kohort.testing.transaction import known_transactions
from kohort.testing.transaction import told as transaction_told

if TYPE_CHECKING:
    from kohort.testing.host import Host
    from kohort.testing.views import Rebalance
    from kohort.testing.watch import Seen

MAX_LINES = 50  # rebalances, and requests: the newest


def story(host: Host) -> str:
    """Groups, rebalances, and requests that failed, or that a fault has met. Call it on the broker's loop."""
    return "\n".join(_lines(host))


def _lines(host: Host) -> Iterator[str]:
    watch = host.watch
    for shard in host.broker.coordinator.runtime.shards:
        for name in shard.state.groups:
            yield f"group {name!r}: {SeenGroup(host, name)}"
    for name in known_transactions(host.broker):
        yield f"transaction {name!r}: {transaction_told(host.broker, name)}"
    for rebalance in watch.rebalances[-MAX_LINES:]:
        yield _rebalance(rebalance)
    told = [each for each in watch.requests if each.errors or each.fault or each.errors is None]
    for request in told[-MAX_LINES:]:
        yield _request(request)
    yield f"{len(watch.requests)} requests, {len(watch.commits)} commits"


def _rebalance(told: Rebalance) -> str:
    return (
        f"rebalance of {told.group!r}, generation {told.generation}: {told.cause} ({told.who}), "
        f"{told.duration_ms} ms, members: {told.members}, partitions moved: {told.moved}"
    )


def _request(seen: Seen) -> str:
    how = "not answered" if seen.errors is None else ", ".join(seen.errors) or "answered"
    fault = f" ({seen.fault})" if seen.fault else ""
    return f"request {seen.number} {seen.api} v{seen.version} of {seen.client_id}: {how}{fault}"
