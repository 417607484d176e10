"""The environment of a process that loads llama.cpp. Importing this loads no library."""

from __future__ import annotations

import os

from spectui.knobs import Setup


def environment(setup: Setup) -> dict[str, str]:
    """This process's environment, with what ggml's backends for GPUs read once, when they are loaded."""
    named = {"GGML_OP_OFFLOAD_MIN_BATCH": str(setup.op_offload_min_batch)} if setup.op_offload_min_batch else {}
    return {**os.environ, **named}
