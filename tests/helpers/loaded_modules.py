"""`python -m tests.helpers.loaded_modules FILE chat ...`: the program as it is; at its end the names of all modules that it had
loaded are in FILE."""

from __future__ import annotations

import sys
from pathlib import Path

from spectui.cli import root

if __name__ == "__main__":
    file = Path(sys.argv.pop(1))
    try:
        root.main(prog_name="spectui")
    finally:
        file.write_text("\n".join(sorted(sys.modules)))
