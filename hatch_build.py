"""The package's build: compiles spectui's kernels (spectui/kernels/build.py). Where that fails, the package does without."""

from __future__ import annotations

import runpy
import sysconfig
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class KernelsHook(BuildHookInterface):  # type: ignore[misc, type-arg, unused-ignore]
    """Puts the library into wheels, which are then for this platform and any Python."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before a wheel is written, also before that of an editable installation, which uses the library in place."""
        kernels = runpy.run_path(f"{self.root}/spectui/kernels/build.py")
        if reason := kernels["build"]():
            self.app.display_warning(f"spectui's kernels were not built: {reason}")
            return
        if sets := kernels["left_out"]():
            self.app.display_warning(f"spectui's kernels were built without {sets}")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
        build_data["artifacts"].append("/spectui/kernels/libspectui-kernels.*")
