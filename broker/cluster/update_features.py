"""UpdateFeatures (57), v0-2 (KIP-584): raise or lower the level of a feature of the cluster.

v1 adds dry runs and kinds of downgrades (KIP-778); v2 answers with one error for all features.
The levels that Kohort announces are those it works with: they are fixed, and an update can only confirm them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.call import Call


def update_features(broker: Broker, request: UpdateFeaturesRequest, call: Call) -> UpdateFeaturesResponse:  # noqa: ARG001
    in_force = {name: highest for name, (_, highest) in broker.features.items()}
    changes = (each for each in request.feature_updates if in_force.get(each.feature) != each.max_version_level)
    wanted = next(changes, None)
    if wanted is None:
        return UpdateFeaturesResponse(0, 0, None, ())
    text = (
        "The update failed for all features since the following feature had an error: Invalid update version "
        f"{wanted.max_version_level} for feature {wanted.feature}. Local controller {broker.config.node_id} does not "
        "support this feature."
    )
    return UpdateFeaturesResponse(0, ErrorCode.INVALID_UPDATE_VERSION, text, ())
