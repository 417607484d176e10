"""`spectui config import` and `export`: what a person sees, and what stays when it fails."""

import os
import resource
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from spectui import config
from spectui.cli import root
from spectui.profiles.imported import RUN_IT
from tests.llama.heads.headed import write_headed
from tests.profiles.test_import import GUIDE, SWAP

COMMENTED = """\
# mine
[profiles.code]
temperature = 0.2  # cool
"""


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The configuration's directory, which is the working directory too."""
    monkeypatch.setenv("SPECTUI_CONFIG_DIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def spectui(*arguments: str, typed: str | None = None) -> Result:
    return CliRunner().invoke(root, ["config", *arguments], input=typed)


def settings(name: str) -> config.Configuration:
    return config.load(profile=name, environ={})


def test_the_guides_file_becomes_a_profile_and_a_file_again(directory: Path) -> None:
    (directory / "swap.yaml").write_text(GUIDE)
    (directory / "config.toml").write_text(COMMENTED)
    result = spectui("import", "swap.yaml")
    assert result.exit_code == 0, result.stderr
    target = directory / "config.toml"
    assert result.stdout.splitlines() == [
        f"Wrote profile qwen-coder-32b-q4 to {target}: spectui chat -P qwen-coder-32b-q4",
        "model /mnt/nvme/models/Qwen2.5-Coder-32B-Instruct-Q4_K_M.gguf is not on this machine.",
        "draft /mnt/nvme/models/Qwen2.5-Coder-0.5B-Instruct-Q8_0.gguf is not on this machine.",
        "These flags of llama.cpp are not used: --host 127.0.0.1, --port 9503, --metrics, --slots.",
        "These keys of llama-swap are for its own use: proxy.",
    ]
    assert target.read_text().startswith(COMMENTED), "comments are kept"
    before = settings("qwen-coder-32b-q4")
    for form in ("llama-swap", "llama-server", "preset"):
        assert spectui("export", "--to", form, "qwen-coder-32b-q4", "-o", f"out.{form}").exit_code == 0
        assert spectui("import", f"out.{form}", "--replace").exit_code == 0
        after = settings("qwen-coder-32b-q4")
        assert (after.knobs, after.setup) == (before.knobs, before.setup)


def test_one_model_of_several_is_chosen(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECTUI_TEST_TEMP", "0.3")
    (directory / "swap.yaml").write_text(SWAP)
    refused = {
        (): "swap.yaml has 3 models (one, three, four): name those you want, or give --all.",
        ("thee",): "swap.yaml has no model 'thee'; did you mean three?",
        ("two",): "swap.yaml: two cannot be imported: its --model /models/x.gguf is a path in a container, and no volume of it "
        "holds that.",
        ("one", "three", "--as", "x"): "--as names one profile, and 2 models were chosen: import them one by one.",
    }
    for arguments, sentence in refused.items():
        result = spectui("import", "swap.yaml", *arguments)
        assert (result.exit_code, result.stderr) == (2, f"spectui: {sentence}\n")
    assert not (directory / "config.toml").exists()
    assert spectui("import", "swap.yaml", "three", "--as", "my own").exit_code == 0
    assert settings("my own").setup.model == "/m/three.gguf"
    result = spectui("import", "swap.yaml", "--all")
    assert result.stdout.count("Wrote profile") == 3
    assert result.stdout.count("--port ${PORT}") == 1, "each thing is listed once"
    assert "Not imported: five: it starts 'vllm', which is no program of llama.cpp.\n" in result.stdout


def test_a_name_that_exists_is_not_replaced_unasked(directory: Path) -> None:
    file = directory / "config.toml"
    file.write_text(COMMENTED)
    result = spectui("import", "-", "--as", "code", typed="llama-server -m x.gguf")
    assert (result.exit_code, result.stderr) == (
        2, f"spectui: {file} has a profile 'code' already: --replace it, or give this one another name.\n"
    )  # fmt: skip
    assert file.read_text() == COMMENTED
    assert spectui("import", "-", "--as", "code", "--replace", typed="llama-server -m x.gguf").exit_code == 0
    found = settings("code")
    assert (found.setup.model, found.knobs.temperature) == (str(directory / "x.gguf"), 0.8)
    assert file.read_text().startswith("# mine\n")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "a.yaml cannot be read: No such file or directory."),
        (b"\xff\xfe", "a.yaml is not text in UTF-8 (line 1): convert it first."),
        (b"#" * 1_000_001, "a.yaml is larger than 1 MB: no configuration is, so give the right file."),
        (b"models:\n  a: b: c\n", "a.yaml: It is not valid YAML (line 2): mapping values are not allowed here."),
    ],
)
def test_a_bad_file_gets_one_sentence(directory: Path, content: bytes | None, sentence: str) -> None:
    if content is not None:
        (directory / "a.yaml").write_bytes(content)
    result = spectui("import", "a.yaml")
    assert (result.exit_code, result.stderr) == (2, f"spectui: {sentence}\n")
    assert not (directory / "config.toml").exists()


def test_a_line_without_a_name_asks_for_one() -> None:
    result = spectui("import", "-", typed="llama-server --temp 0")
    assert result.stderr == (
        "spectui: standard input has neither a model nor an alias to name the profile after: name it with --as.\n"
    )
    long = spectui("import", "-", "--as", "x" * 121, typed="llama-server --temp 0")
    assert long.stderr.startswith("spectui: A profile's name has 1 to 120 printable characters, not 'xxx")


def test_a_full_disk_loses_nothing(directory: Path) -> None:
    file = directory / "config.toml"
    file.write_text(COMMENTED)
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, old[1]))
    try:
        written = spectui("import", "-", "--as", "new", typed="llama-server -m x.gguf")
        exported = spectui("export", "--to", "preset", "code", "-m", "x.gguf", "-o", "out.ini")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
    assert written.stderr == f"spectui: {file} cannot be written: File too large.\n"
    assert exported.stderr == "spectui: out.ini cannot be written: File too large.\n"
    assert file.read_text() == COMMENTED and os.listdir(directory) == ["config.toml"]


def test_a_profile_without_a_model_is_given_one(directory: Path) -> None:
    (directory / "config.toml").write_text(COMMENTED)
    assert spectui("export", "--to", "llama-swap", "code").stderr == (
        "spectui: Profile 'code' names no model, which llama-server needs: give one with -m, or in the file.\n"
    )
    result = spectui("export", "--to", "llama-swap", "code", "-m", "/m/x.gguf", "-md", "/m/y.gguf", "--strict")
    assert "      --model /m/x.gguf\n" in result.stdout and "      --temp 0.2\n" in result.stdout
    assert result.stderr == ("spectui: llama-server does not have these, so comments have them: strict, drafter, policy.\n")


def test_an_unknown_profile_or_format_gets_one_sentence(directory: Path) -> None:
    (directory / "config.toml").write_text(COMMENTED)
    result = spectui("export", "--to", "preset", "cod")
    assert result.stderr == f"spectui: {directory / 'config.toml'} has no profile 'cod'; did you mean code?\n"
    assert spectui("export", "--to", "ini", "code").stderr.startswith("spectui: Invalid value for '--to': 'ini'")
    assert spectui("export", "--to", "preset").stderr == "spectui: Missing argument 'NAME...'.\n"


def test_an_existing_file_is_not_replaced_unasked(directory: Path) -> None:
    (directory / "config.toml").write_text(COMMENTED)
    (directory / "out.ini").write_text("mine")
    arguments = ("export", "--to", "preset", "code", "-m", "/m/x.gguf", "-o", "out.ini")
    assert spectui(*arguments).stderr == ("spectui: out.ini exists already: --replace it, or name another with -o.\n")
    assert (directory / "out.ini").read_text() == "mine"
    assert spectui(*arguments, "--replace").exit_code == 0
    written = (directory / "out.ini").read_text()
    assert written.startswith("version = 1\n")
    assert spectui(*arguments[:-1], "-").stdout == written


@pytest.mark.parametrize("rest", ["", " -ngl 99"])
def test_a_flag_without_its_value_is_named(directory: Path, rest: str) -> None:
    (directory / "start.sh").write_text(f"llama-server -m{rest}\n")
    result = spectui("import", "start.sh")
    assert (result.exit_code, result.stderr) == (1, "spectui: start.sh gives -m no value: add it.\n")
    assert spectui("import", "start.sh", "--as", "mine").exit_code == 1


def test_half_a_line_writes_nothing(directory: Path) -> None:
    (directory / "start.sh").write_text("llama-server -m '/m/a.gguf")
    result = spectui("import", "start.sh", "--as", "mine")
    assert (result.exit_code, result.stderr) == (
        1,
        f"spectui: start.sh: Line 1 is cut off, or more than a plain script has: {RUN_IT}.\n",
    )
    assert not (directory / "config.toml").exists()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.yaml", "models:\n  a:\n    cmd: |\n      llama-server\n      -m /m/a.gguf \\\n      -c 5\n"),
        ("a.ini", "[a]\nmodel = /m/a.gguf\nc = 5\n"),
        ("a.sh", "#!/bin/sh\nARGS='-c 5'\nllama-server -m /m/a.gguf \\\n  $ARGS\n"),
        ("a.bat", "@echo off\nset C=5\nllama-server -m /m/a.gguf ^\n  -c %C%\n"),
        ("a.ps1", "$c = 5\n& llama-server -m /m/a.gguf `\n  -c $c\n"),
        ("a.service", "[Service]\nExecStart=llama-server \\\n  -m /m/a.gguf -c 5\n"),
        ("compose.yml", "services:\n  a:\n    image: llama.cpp\n    volumes: ['/m:/m']\n    command: -m /m/a.gguf -c 5\n"),
    ],
)
def test_what_an_editor_of_windows_saved_is_read(directory: Path, name: str, content: str) -> None:
    (directory / name).write_bytes(("\ufeff" + content).replace("\n", "\r\n").encode())
    result = spectui("import", name)
    assert result.exit_code == 0, result.stderr
    assert (settings("a").setup.model, settings("a").setup.ctx_size) == ("/m/a.gguf", 5)


def test_heads_beside_the_target_are_exported_as_its_draft(tmp_path: Path) -> None:
    target = write_headed(tmp_path / "target.gguf", heads=0)
    heads = write_headed(tmp_path / "mtp-target.gguf", alone=True)
    (tmp_path / "config.toml").write_text("[profiles.code]\n")
    written = spectui("export", "--to", "llama-server", "code", "-m", str(target)).stdout
    assert f"--model-draft {heads}" in written and "draft-mtp" in written
