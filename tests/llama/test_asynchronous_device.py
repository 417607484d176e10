"""A device that computes while Python goes on: ggml's Vulkan backend on a software GPU, where it is built."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.llama.ggufs import write_model

LIBRARIES = Path(os.environ.get("SPECTUI_VULKAN_LIB") or Path.home() / ".cache" / "spectui-peers" / "bin-vulkan")

pytestmark = pytest.mark.skipif(
    not (LIBRARIES / "libggml-vulkan.so").exists(), reason=f"llama.cpp is not built for Vulkan ({LIBRARIES})"
)

REPLY = """
import json, sys
from spectui.engine.events import Message, RoundDone
from spectui.engine.session import Session
from spectui.knobs import Knobs, Setup
from spectui.llama.devices.listing import list_devices

events = []
session = Session(events.append)
session.load(Setup(**json.loads(sys.argv[1])))
session.knobs = Knobs(temperature=0, predict=2, drafter="off")
session.generate([Message("user", "Hi")])  # the driver compiles its shaders
events.clear()
finished = session.generate([Message("user", "a" * 80)])
rounds = [event.round.seconds for event in events if isinstance(event, RoundDone)]
kinds = [device.kind for device in list_devices()]
print(json.dumps({"kinds": kinds, "rounds": rounds, "prompt_s": finished.prompt_s, "tokens": finished.prompt_tokens}))
"""

SELF_TEST = """
import json, sys
from spectui.llama import library, selftest

told = []
with library.listening(told.append):
    selftest.main(sys.argv[1], "plain")
print(json.dumps([line for line in told if "buffer size" in line]))
"""


def on_the_device(program: str, *arguments: str) -> Any:
    """What the program prints in its last line, with the libraries that have the device."""
    libraries = {"LD_LIBRARY_PATH": str(LIBRARIES), "LLAMA_CPP_LIB_PATH": str(LIBRARIES)}
    # The software GPU is a CPU to its driver, so it has to be asked for; with half floats the driver crashes.
    device = {"GGML_VK_VISIBLE_DEVICES": "0", "GGML_VK_DISABLE_F16": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, **libraries, **device},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_the_prompt_is_computed_before_the_first_round(tmp_path: Path):
    """The prompt's twelve passes take longer than the first round's one, which computes nothing of the prompt."""
    model = write_model(tmp_path / "model.gguf")
    found = on_the_device(REPLY, json.dumps({"model": str(model), "ctx_size": 256, "ubatch": 8, "no_profile": "on"}))
    assert "gpu" in found["kinds"] or "igpu" in found["kinds"]
    assert found["tokens"] > 90
    assert found["prompt_s"] > found["rounds"][0]


def test_the_self_test_does_not_use_the_device(tmp_path: Path):
    buffers = on_the_device(SELF_TEST, str(tmp_path))
    assert any("CPU" in line for line in buffers)
    assert not any("Vulkan" in line for line in buffers)
