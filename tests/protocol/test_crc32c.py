"""The checksum is loaded without the package around it, which takes long to import."""

from __future__ import annotations

import subprocess
import sys

import crc32c as package

from kohort.protocol import crc32c as ours

SLOW_TO_IMPORT = "importlib.metadata"


def test_the_checksum_is_that_of_the_package() -> None:
    data = bytes(range(256)) * 40
    for size in (0, 1, 7, 8, 9, 255, 4096, len(data)):
        assert ours.crc32c(data[:size]) == package.crc32c(data[:size])
        assert ours.crc32c(memoryview(data)[1:size], 0x12345678) == package.crc32c(data[1:size], 0x12345678)
    assert ours.crc32c(b"123456789") == 0xE3069283


def test_the_package_can_be_imported_beside_it() -> None:
    program = "from kohort.protocol.crc32c import crc32c; import crc32c as p; assert crc32c(b'a') == p.crc32c(b'a')"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_broker_starts_without_what_is_slow_to_import() -> None:
    program = f"import sys, kohort.broker.commands.serve; assert {SLOW_TO_IMPORT!r} not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_package_that_is_laid_out_otherwise_is_imported_as_usual() -> None:
    program = """
from importlib.machinery import PathFinder

as_usual = PathFinder.find_spec

def hides_the_compiled_module(name, path=None, *target):
    by_kohort = not target  # Python itself gives three arguments
    return None if by_kohort and name == "crc32c._crc32c" else as_usual(name, path, *target)

PathFinder.find_spec = hides_the_compiled_module
from kohort.protocol import crc32c
assert crc32c.compiled is None
assert crc32c.crc32c(b"123456789") == 0xE3069283
"""
    subprocess.run([sys.executable, "-c", program], check=True)
