"""The exceptions that decoders raise for bytes that they cannot, or will not, read."""


class MalformedMessage(ValueError):
    """Bytes that are not the message they claim to be. The text says what is wrong, in one line."""


class TooManyElements(MalformedMessage):
    """A request with more array elements and tagged fields than it may have, or than may be read at once."""
