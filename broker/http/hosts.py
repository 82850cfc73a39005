"""The Host header of a request, against DNS rebinding.

A web page that somebody looks at can send requests to 127.0.0.1. If its own name was made to resolve to 127.0.0.1, the
browser takes the answers for its own, and lets the page read them. But then the Host header has the page's name.
"""

from __future__ import annotations

from ipaddress import ip_address


def without_port(host: str) -> str:
    """The host of HOST, HOST:PORT or [HOST]:PORT; empty if it is none of these."""
    if host.startswith("["):
        name, _, rest = host[1:].partition("]")
        return name if not rest or rest.startswith(":") else ""
    return host.partition(":")[0].lower()


def is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def is_loopback(name: str) -> bool:
    """Whether only this machine can come to a port that was opened on this host."""
    return name.lower() == "localhost" or (is_address(name) and ip_address(name).is_loopback)


def names_this_machine(header: str, own_name: str) -> bool:
    """Whether the Host header has a name that no other site can have: an address, localhost, or our own name."""
    name = without_port(header)
    return bool(name) and (name in ("localhost", own_name.lower()) or is_address(name))
