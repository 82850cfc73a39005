"""Delivery to members of share groups (KIP-932): what the leader of a partition does."""

if __name__ != "kohort.broker.share":  # the repository itself is on sys.path: each module would exist twice
    raise ImportError(f"import kohort.broker.share, not {__name__}", name=__name__)
