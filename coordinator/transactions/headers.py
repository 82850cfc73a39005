"""Headers of the records in __transaction_state: why a transaction was decided, and who has begun to use the id.

Kafka's records do not say that, and Kafka skips record headers. The audit may read them.
"""

from __future__ import annotations

from enum import Enum

from kohort.coordinator.outcome import Headers

CAUSE = b"kohort.cause"
CLIENT = b"kohort.client"
MAX_CLIENT_ID = 255  # characters


class Cause(Enum):
    CLIENT = "client"  # EndTxn
    TIMEOUT = "timeout"  # the transaction took longer than its producer had said
    FENCED = "fenced"  # another producer has begun to use the transactional id
    RESUMED = ""  # decided before the coordinator was loaded: the cause is not known any more


CAUSE_HEADERS: dict[Cause, Headers] = {cause: ((CAUSE, cause.value.encode()),) for cause in Cause}


def client_headers(client_id: str) -> Headers:
    return ((CLIENT, client_id[:MAX_CLIENT_ID].encode(errors="replace")),) if client_id else ()
