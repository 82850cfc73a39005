"""The checksum of record batches, from the package crc32c.

Only its compiled module is loaded. The package itself reads its own version when it is imported, for which Python loads
50 modules about mails and archives: that took a sixth of the broker's start.
"""

from __future__ import annotations

from importlib.machinery import ExtensionFileLoader, PathFinder
from importlib.util import module_from_spec
from types import ModuleType


def _compiled_module() -> ModuleType | None:
    """None: the package is not laid out as expected, and has to be imported as usual."""
    package = PathFinder.find_spec("crc32c")
    if package is None or package.submodule_search_locations is None:
        return None
    found = PathFinder.find_spec("crc32c._crc32c", package.submodule_search_locations)
    if found is None or not isinstance(found.loader, ExtensionFileLoader):
        return None
    module = module_from_spec(found)
    found.loader.exec_module(module)
    return module if hasattr(module, "crc32c") else None


compiled = _compiled_module()
if compiled is None:
    from crc32c import crc32c
else:
    crc32c = compiled.crc32c

__all__ = ["crc32c"]
