"""Cleans up after deleted topics, in a thread, because that takes many syncs and removes large files.

The file of topics says that they are deleted, and that is durable when the client is answered. Checkpoints may still
name their partitions, and after a crash their folders may have their old names again: the next start removes what it
finds of a deleted topic. When all is done, the file no longer has to name the deleted topics.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kohort.broker.worker import Work
    from kohort.storage.checkpoints import Checkpoint
    from kohort.storage.log_directory import LogDirectory

logger = logging.getLogger(__name__)


class Erasures:
    def __init__(
        self,
        logs: LogDirectory,
        in_thread: Callable[[Work, Work], object],
        forget: Callable[[Iterable[bytes]], object],
    ) -> None:
        """`forget` is told the ids of topics of which nothing is left."""
        self._logs = logs
        self._in_thread = in_thread
        self._forget = forget
        self._topic_ids: list[bytes] = []
        self._folders: list[str] = []
        self._is_busy = False

    def add(self, topic_ids: Iterable[bytes], folders: Iterable[str]) -> None:
        """These topics were deleted, and their folders put away."""
        self._topic_ids += topic_ids
        self._folders += folders
        if not self._is_busy:
            self._begin()

    def _begin(self) -> None:
        """Begin with all that was added so far. What is added meanwhile is done together afterwards."""
        self._is_busy = True
        topic_ids, self._topic_ids = self._topic_ids, []
        folders, self._folders = self._folders, []
        checkpoint = self._logs.plan_checkpoint()
        problems: list[OSError] = []

        def work() -> None:
            try:
                checkpoint.write()
                self._logs.disk.sync_folder(self._logs.path)
            except OSError as problem:
                problems.append(problem)
            for folder in folders:
                self._logs.erase(folder)

        self._in_thread(work, lambda: self._end(checkpoint, topic_ids, problems))

    def _end(self, checkpoint: Checkpoint, topic_ids: list[bytes], problems: list[OSError]) -> None:
        self._is_busy = False
        if problems:
            logger.error("traces of deleted topics may be left for the next start: %s", problems[0])
        else:
            self._logs.checkpoint_written(checkpoint)
            self._forget(topic_ids)
        if self._topic_ids or self._folders:
            self._begin()
