"""What goes wrong between a client and a cluster. The texts are for people to read, in one line."""

from __future__ import annotations


class ClientError(Exception):
    """A broker cannot be reached, does not speak what is needed, or refuses."""


class ConnectionLost(ClientError):
    """The connection could not be made, or is gone. Another broker, or the same one later, may well answer."""


class AccessDenied(ClientError):
    """The broker refuses the credentials, or the user lacks a right. Asking again changes nothing."""


class WrongSettings(ClientError):
    """The client's settings cannot be used."""
