"""The kinds of records in __share_group_state: how far the groups of KIP-932 have come with each partition.

A snapshot is the whole state of one share partition, an update says what has changed since. Both have the same key, so
the topic is not compacted: it is cut off below the oldest snapshot that is still needed.
"""

from __future__ import annotations

from typing import Final

from kohort.protocol.record_types import RecordType, RecordTypes

# The types, as Kafka numbers them. Nobody else writes these numbers down.
SHARE_SNAPSHOT: Final = 0
SHARE_UPDATE: Final = 1

SHARE_GROUP_STATE: Final = RecordTypes(
    "__share_group_state",
    RecordType(SHARE_SNAPSHOT, "ShareSnapshot", 0),
    RecordType(SHARE_UPDATE, "ShareUpdate", 0),
)
