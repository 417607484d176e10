"""A device that computes while Python goes on: ggml's Vulkan backend on a software GPU, where it is built."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.llama.ggufs import write_model

LIBRARIES = Path(os.environ.get("SPECTUI_VULKAN_LIB") or Path.home() / ".cache" / "spectui-peers" / "bin-vulkan")

needs_vulkan = pytest.mark.skipif(
    not (LIBRARIES / "libggml-vulkan.so").exists(), reason=f"llama.cpp is not built for Vulkan ({LIBRARIES})"
)
pytestmark = needs_vulkan

REPLY = """
import json, sys
from spectui.engine.events import Message, Prompt
from spectui.engine.session import Session
from spectui.knobs import Knobs, Setup
from spectui.llama.devices.listing import list_devices
from spectui.llama.library import llama

def noted(name, function):
    return lambda *arguments: (log.append(name), function(*arguments))[1]

log = []
session = Session(lambda event: log.append("told") if isinstance(event, Prompt) else None)
session.load(Setup(**json.loads(sys.argv[1])))
session.knobs = Knobs(temperature=0, predict=2, drafter="off")
for name in ("llama_decode", "llama_synchronize"):
    setattr(llama, name, noted(name, getattr(llama, name)))
finished = session.generate([Message("user", "a" * 230)])
kinds = [device.kind for device in list_devices()]
print(json.dumps({"kinds": kinds, "log": log, "tokens": finished.prompt_tokens}))
"""

SELF_TEST = """
import json, sys
from spectui.llama import library, selftest

told = []
with library.listening(told.append):
    selftest.main(sys.argv[1], "plain")
print(json.dumps([line for line in told if "buffer size" in line]))
"""


STRICT = """
import json, sys
from dataclasses import replace
from spectui.engine.events import Message, RoundDone
from spectui.engine.session import Session
from spectui.knobs import Knobs, Setup

events = []
session = Session(events.append)
loaded = session.load(Setup(**json.loads(sys.argv[1])))
drafts = Knobs(temperature=0, predict=16, drafter="model", policy="fixed", draft_max=8, p_min=0.0)
texts = []
for knobs in (replace(drafts, drafter="off"), drafts):
    session.knobs = knobs
    texts.append(session.generate([Message("user", "Hi")]).text)
sizes = [event.round.pass_size for event in events if isinstance(event, RoundDone)]
print(json.dumps({"remark": loaded.target.remark, "texts": texts, "largest": max(sizes)}))
"""


BESIDE = """
import json, sys
from pathlib import Path
import numpy as np
from spectui.kernels.plugin import LLAMA_CPP, Kernels
from spectui.llama.context import Context
from spectui.llama.cpu import plugin
from spectui.llama.devices.listing import list_devices
from spectui.llama.interrupt import Interrupt
from spectui.llama.model import Model
from tests.kernels.ggml import Kind
from tests.kernels.test_passes import tokens, write_model

path = write_model(Path(sys.argv[1]), Kind.Q8_0, experts=4 * ("exps" in sys.argv[3]))
gpus = [device for device in list_devices() if device.kind == "gpu"]
own = Kernels(plugin.load().set)
found = []
for kernels in (LLAMA_CPP, own, own._replace(beside=1 << 20)):
    placed = {"gpu_layers": int(sys.argv[2]), "overrides": json.loads(sys.argv[3])}
    model = Model(str(path), on_devices=gpus, kernels=kernels, **placed)
    context = Context(model, Interrupt(), n_ctx=128, rows=40)
    found.append([context.evaluate(tokens(at, n), n).copy() for at, n in ((0, 32), (32, 1), (33, 8))])
    uses = [use.device for use in model.memory]
    context.close()
    model.close()
apart = [[float(abs(a - b).mean() / b.std()) for a, b in zip(some, found[0])] for some in found]
print(json.dumps({"apart": apart, "uses": uses}))
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
    """The device has computed each pass of the prompt when it is told that the prompt is read: its time is in no round."""
    setup = {"model": str(write_model(tmp_path / "model.gguf")), "ctx_size": 512, "ubatch": 256, "no_profile": "on"}
    found = on_the_device(REPLY, json.dumps(setup))
    assert "gpu" in found["kinds"] or "igpu" in found["kinds"]
    assert found["tokens"] > 200
    prompt = found["log"][: len(found["log"]) - found["log"][::-1].index("told")]
    passes = [number for number, name in enumerate(prompt) if name == "llama_decode"]
    assert passes
    assert [prompt[number + 1] for number in passes] == ["llama_synchronize"] * len(passes)


def test_the_self_test_does_not_use_the_device(tmp_path: Path):
    buffers = on_the_device(SELF_TEST, str(tmp_path))
    assert any("CPU" in line for line in buffers)
    assert not any("Vulkan" in line for line in buffers)


def test_strict_makes_no_pass_longer_than_those_that_round_alike(tmp_path: Path):
    """Where single rows round differently from several, it says so and decodes plainly."""
    pair = {"model": str(write_model(tmp_path / "model.gguf")), "draft": str(write_model(tmp_path / "draft.gguf"))}
    found = on_the_device(STRICT, json.dumps({**pair, "ctx_size": 256, "strict": "on"}))
    equal = re.search(r"passes of up to (\d+) tokens round as single ones do", found["remark"])
    unequal = ("passes of several tokens round differently from single ones", "there was no time to compare passes")
    assert equal or any(words in found["remark"] for words in unequal)
    assert found["largest"] <= (int(equal[1]) if equal else 1)
    assert found["texts"][0] == found["texts"][1]


@pytest.mark.parametrize(("layers", "overrides"), [(-1, [("exps", "CPU")]), (2, [])], ids=["experts", "layers"])
def test_what_is_on_the_cpu_is_multiplied_by_spectuis_kernels(tmp_path: Path, layers: int, overrides: list):
    """As llama.cpp multiplies it, but for rounding. Where the device reads the weights, passes over 32 tokens are its own."""
    found = on_the_device(BESIDE, str(tmp_path / "model.gguf"), str(layers), json.dumps(overrides))
    assert found["uses"] == ["CPU", "Vulkan0"]
    _, alone, beside = found["apart"]
    assert all(0 < apart < 0.1 for apart in [*alone, *beside[1:]])
    assert beside[0] < alone[0] and (beside[0] == 0 or layers == 2)  # the attention of layers is spectui's
