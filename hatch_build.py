"""Compiles broker/topics/record_walk.c when Kohort is built or installed from its sources, if there is a C compiler.

A wheel with the library in it is for one platform (py3-none-linux_x86_64 and the like). Without a compiler, or with
KOHORT_PURE set, the wheel is py3-none-any, and the same work is done in Python.
"""

from __future__ import annotations

import os
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCE = "broker/topics/record_walk.c"
LIBRARY = "broker/topics/librecord_walk.so"


class CompileRecordWalk(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - hatch calls it so
        if self.target_name != "wheel":
            return
        if os.environ.get("KOHORT_PURE") or not self._compile():
            return
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"
        build_data["artifacts"].append(LIBRARY)

    def _compile(self) -> bool:
        library = Path(self.root, LIBRARY)
        fresh = library.with_suffix(".tmp")  # a broker that runs may have the old library open: replace it, as a whole
        compiler = os.environ.get("CC") or "cc"
        command = [*compiler.split(), "-O3", "-fPIC", "-shared", "-o", str(fresh), str(Path(self.root, SOURCE))]
        try:
            subprocess.run(command, check=True, capture_output=True)
            fresh.replace(library)
        except (OSError, subprocess.CalledProcessError) as problem:
            self.app.display_info(f"Kohort is built without {SOURCE}, which is optional: {problem}")
            return False
        return True
