"""ApiVersions (18): the first thing a client asks.

v1 adds the throttle time (KIP-219 changed when it applies, in v2); v3 is flexible and adds the client's name and
version (KIP-511) and the broker's features (KIP-584); v4 lets a feature's lowest level be 0.
An unknown version is answered in the format of v0 with the versions of ApiVersions itself, see `fallback_answer`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from kohort.protocol.api_keys import APIS, ApiKey
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
    encode_response,
)
from kohort.protocol.wire import Encoded

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.call import Call

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def api_versions(broker: Broker, request: ApiVersionsRequest, call: Call) -> ApiVersionsResponse | Encoded:
    """Every client asks this on every connection and gets the same answer, so it is encoded once per version."""
    if call.version >= 3 and not _is_software(request.client_software_name, request.client_software_version):
        return ApiVersionsResponse(ErrorCode.INVALID_REQUEST)
    known: dict[int, Encoded] = broker.extra.setdefault("api_versions", {})
    if call.version not in known:
        known[call.version] = Encoded(bytes(encode_response[call.version](_answer(broker, call.version))))
    return known[call.version]


@lru_cache(maxsize=1000)
def _is_software(name: str, version: str) -> bool:
    return bool(_SOFTWARE.fullmatch(name) and _SOFTWARE.fullmatch(version))


def _answer(broker: Broker, version: int) -> ApiVersionsResponse:
    keys = [ApiVersion(*each) for each in broker.apis.announced()]
    if version < 3:
        return ApiVersionsResponse(0, keys)
    features = broker.features
    supported = [
        SupportedFeatureKey(name, low, high)
        for name, (low, high) in features.items()
        if low > 0 or version >= 4  # v3 clients cannot read a lowest level of 0
    ]
    finalized = [FinalizedFeatureKey(name, high, high) for name, (_, high) in features.items()]
    return ApiVersionsResponse(0, keys, 0, supported, 0 if finalized else -1, finalized)


def fallback_answer() -> bytes:
    """The answer to a request of an unknown version, in the format of v0, which every client can read."""
    ours = APIS[ApiKey.API_VERSIONS]
    keys = [ApiVersion(ApiKey.API_VERSIONS, ours.min_version, ours.max_version)]
    return bytes(encode_response[0](ApiVersionsResponse(ErrorCode.UNSUPPORTED_VERSION, keys)))
