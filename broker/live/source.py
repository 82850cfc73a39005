"""What the page asks of whoever knows groups: a running broker, or a log that is read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from kohort.broker.live.explainer import Explainer
from kohort.broker.live.histories import Histories
from kohort.broker.live.rows import GroupRow, PartitionRow


class Source(Protocol):
    @property
    def histories(self) -> Histories: ...

    @property
    def explainer(self) -> Explainer | None:
        """None: there is no log on a disk."""
        ...

    def about(self) -> dict[str, Any]:
        """What is shown on top of the page: where the groups are, and whether there is something to complain of."""
        ...

    def now_ms(self) -> int: ...

    def rows(self) -> Iterator[GroupRow | None]:
        """All groups. A None is only a step."""
        ...

    def row(self, group_id: str) -> Iterator[GroupRow | None]:
        """One group; no row if there is no such group."""
        ...

    def partitions(self, group_id: str) -> Iterator[PartitionRow | None]:
        """Every partition that has a committed offset or an owner. A None is only a step."""
        ...

    def details(self, group_id: str) -> dict[str, Any]:
        """What only a coordinator knows: for whom a rebalance waits, for instance."""
        ...

    def watched(self, group_id: str, watchers: int) -> None:
        """So many people look at the group now."""
        ...
