"""The exception that all decoders raise for bytes that they cannot read."""


class MalformedMessage(ValueError):
    """Bytes that are not the message they claim to be. The text says what is wrong, in one line."""
