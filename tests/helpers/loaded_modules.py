"""`python -m tests.helpers.loaded_modules FILE chat ...`: the program as it is; at its end the names of all modules that it had
loaded are in FILE. Beside it, a file .first has those that were loaded when the window was painted and asked for its models.

The modules in the variable BLOCKED are as if they were not installed."""

import os
import sys
from pathlib import Path
from typing import Any

from spectui.cli import root
from spectui.engine.worker import Worker


def write(file: Path) -> None:
    """Write the names of the modules that are loaded."""
    file.write_text("\n".join(sorted(name for name, module in sys.modules.items() if module is not None)))


if __name__ == "__main__":
    sys.modules |= dict.fromkeys(os.environ.get("BLOCKED", "").split())  # type: ignore[arg-type]
    file, load = Path(sys.argv.pop(1)), Worker.load

    def noted(worker: Worker, *arguments: Any) -> None:
        """The engine's thread imports from here on."""
        Worker.load = load  # type: ignore[method-assign]
        write(file.with_suffix(".first"))
        load(worker, *arguments)

    Worker.load = noted  # type: ignore[assignment,method-assign]
    try:
        root.main(prog_name="spectui")
    finally:
        write(file)
