"""DescribeLogDirs (35): the sizes of the partitions in the data folder, and how much room is left.

v2 is flexible; v3 adds an error for the whole answer; v4 adds the size of the disk (KIP-827); v5 says whether a folder
takes no new partitions (KIP-1066), which is never so here.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kohort.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.call import Call
    from kohort.broker.steps import Steps


def describe_log_dirs(broker: Broker, request: DescribeLogDirsRequest, call: Call) -> Steps[DescribeLogDirsResponse]:  # noqa: ARG001
    asked: dict[str, set[int]] = {}
    for each in request.topics or ():
        asked.setdefault(each.topic, set()).update(each.partitions)
        yield
    topics = []
    for name in list(broker.catalog.names() if request.topics is None else asked):
        count = broker.catalog.partition_count(name)
        partitions = []
        for index in range(count) if request.topics is None else sorted(asked[name]):
            if 0 <= index < count:
                partitions.append(DescribeLogDirsPartition(index, _size_of(broker, name, index)))
            yield
        if partitions:
            topics.append(DescribeLogDirsTopic(name, partitions))
        yield
    folder = os.path.abspath(broker.config.data_folder)
    total_bytes, usable_bytes = broker.disk.space(broker.config.data_folder)
    return DescribeLogDirsResponse(0, 0, [DescribeLogDirsResult(0, folder, topics, total_bytes, usable_bytes)])


def _size_of(broker: Broker, name: str, index: int) -> int:
    log = broker.logs.logs.get((name, index))
    return log.size_bytes if log is not None else 0
