"""The one exception that bad bytes raise, whatever is wrong with them."""


class MalformedMessage(ValueError):
    """Bytes that are not the message they claim to be. The text says what is wrong, never more than a line."""
