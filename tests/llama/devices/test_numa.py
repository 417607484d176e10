"""NUMA is switched on once in a process."""

import subprocess
import sys
from pathlib import Path

from tests.llama.ggufs import write_model

PROGRAM = """
import sys
from spectui.engine.session import Session
from spectui.knobs import Setup
from spectui.llama.library import llama

asked, real = [], llama.llama_numa_init
llama.llama_numa_init = lambda strategy: (asked.append(strategy), real(strategy))
session = Session(lambda event: None)
for numa, threads in (("off", 1), ("distribute", 1), ("distribute", 2)):
    session.load(Setup(model=sys.argv[1], ctx_size=64, threads=threads, no_profile="on", numa=numa))
print(asked)
"""


def test_numa(tmp_path: Path):
    model = write_model(tmp_path / "model.gguf", template="x")
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(model)], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1:] == ["[0, 1]"], done.stderr
