"""Bytes to messages and back; pure."""

if __name__ != "kohort.protocol":  # the repository itself is on sys.path: each module would exist twice
    raise ImportError(f"import kohort.protocol, not {__name__}", name=__name__)
