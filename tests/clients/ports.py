"""Free ports for servers that are told their port, because they are stopped and started again on the same one.

The kernel gives ports from 32768 on (Linux) to whoever asks for any: while a server restarts, its port could become the
source port of somebody's connection. Ports below are given to nobody.
"""

from __future__ import annotations

import random
import socket

LOWEST, HIGHEST = 12_000, 32_000
_random = random.SystemRandom()  # whatever seed a test has set


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on just now. Random ones, since other test runs look for ports at the same time."""
    found: list[int] = []
    while len(found) < count:
        port = _random.randrange(LOWEST, HIGHEST)
        if port not in found and _is_free(port):
            found.append(port)
    return found


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a server does so, too
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
