"""The process: sockets, settings, topics and commands."""

if __name__ != "kohort.broker":  # the repository itself is on sys.path: each module would exist twice
    raise ImportError(f"import kohort.broker, not {__name__}", name=__name__)
