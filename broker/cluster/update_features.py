"""UpdateFeatures (57), v0-2 (KIP-584): raise or lower the level of a feature of the cluster.

v1 adds dry runs and kinds of downgrades (KIP-778); v2 answers with one error for all features.
Kohort announces no features (`kafka-features describe` shows none), so no update can be made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.call import Call


def update_features(broker: Broker, request: UpdateFeaturesRequest, call: Call) -> UpdateFeaturesResponse:  # noqa: ARG001
    if not request.feature_updates:
        return UpdateFeaturesResponse(0, 0, None, ())
    wanted = request.feature_updates[0]
    text = (
        "The update failed for all features since the following feature had an error: Invalid update version "
        f"{wanted.max_version_level} for feature {wanted.feature}. Local controller {broker.config.node_id} does not "
        "support this feature."
    )
    return UpdateFeaturesResponse(0, ErrorCode.INVALID_UPDATE_VERSION, text, ())
