"""llama.cpp's own programs and source, where `.ci/peers` has put them: what spectui is compared with."""

import os
from pathlib import Path

PEERS = Path(os.environ.get("SPECTUI_PEERS", "~/.cache/spectui-peers")).expanduser()
BIN = PEERS / "bin"
SOURCE = PEERS / "src" / "vendor" / "llama.cpp"

NOT_THERE = "llama.cpp's programs and source are not there (.ci/peers builds them)"
"""Why tests are skipped."""
