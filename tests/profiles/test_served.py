"""What is exported is started by the real llama-server, and drafts there."""

import shlex
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from spectui.cli import root
from spectui.profiles.file import ProfileFile
from tests.helpers.llama_server import needs_llama_server, serving
from tests.helpers.smollm2 import setup

NUMBERS = "one two three four five six seven eight nine ten. one two three four five six seven eight nine ten. one two"


def exported(form: str, tmp_path: Path) -> str:
    """SmolLM2 and its draft as a profile, exported."""
    pair = setup()
    settings: dict[str, Any] = {
        "model": pair.model, "draft": pair.draft, "ctx_size": 256, "threads": 1, "ubatch": 32, "temperature": 0.0,
        "draft_max": 5, "p_min": 0.3, "gpu_layers": 0, "system": "It's {brief}.", "cache_type_k": "q8_0",
    }  # fmt: skip
    file = tmp_path / "config.toml"
    ProfileFile(file).write({"tiny": settings})
    result = CliRunner().invoke(root, ["config", "export", "--to", form, "tiny", "--config", str(file)])
    assert result.exit_code == 0, result.stderr
    return result.stdout


def arguments(command: str) -> list[str]:
    """A command's arguments as llama-swap finds them: lines that begin with # are comments."""
    words = shlex.split("\n".join(line for line in command.splitlines() if not line.startswith("#")).replace("\\\n", " "))
    assert words[0] == "llama-server"
    return words[1:]


@needs_llama_server
@pytest.mark.parametrize("form", ["llama-swap", "llama-server"])
def test_the_command_is_started_and_drafts(form: str, tmp_path: Path) -> None:
    text = exported(form, tmp_path)
    if form == "llama-swap":
        words = arguments(yaml.safe_load(text)["models"]["tiny"]["cmd"])
    else:
        words = [*arguments(text), "--port", "${PORT}"]
    with serving([*words, "--no-warmup", "--parallel", "1"]) as server:  # it answers /health, which `serving` waits for
        timings = server.complete(NUMBERS, n_predict=16)["timings"]
    assert timings["draft_n"] > 0, "a draft model alone drafts nothing: --spec-type must be there"


@needs_llama_server
def test_the_preset_is_read(tmp_path: Path) -> None:
    file = tmp_path / "presets.ini"
    file.write_text(exported("preset", tmp_path))
    with serving(["--models-preset", str(file), "--port", "${PORT}"]) as server:
        models = {each["id"]: each for each in server.models()}
    words = models["tiny"]["status"]["args"]
    given = dict(pairwise(words))
    assert given["--spec-type"] == "ngram-simple,draft-simple" and given["--spec-draft-n-max"] == "5"
    assert given["--model"] == setup().model
