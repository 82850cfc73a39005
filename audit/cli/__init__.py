"""`kohort audit`: who owned what when, who committed what, and what went wrong, from a log of consumer offsets.

audit.py    `kohort audit`
owners.py   `kohort audit owners`, the time machine
follow.py   `kohort audit follow`, beside a running broker
common.py   what the three have in common

The words `owners` and `follow` name actions; a folder with such a name is written ./owners.
"""

from __future__ import annotations

from kohort.audit.cli.audit import add_arguments, run

__all__ = ["ACTIONS", "add_arguments", "run"]

ACTIONS = {"owners": "kohort.audit.cli.owners", "follow": "kohort.audit.cli.follow"}
