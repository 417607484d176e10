"""Flags: llama.cpp's spelling, the nearest name, and what `config show` prints for them."""

from pathlib import Path

import gguf
import pytest
from click.testing import CliRunner, Result

from spectui import paths
from spectui.cli import root
from spectui.config import settings
from tests.llama.ggufs import write_model


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(root, arguments)


def shown(*arguments: str) -> dict[str, tuple[str, str]]:
    """key -> (value, origin) as `config show` prints them."""
    result = invoke("config", "show", *arguments)
    assert result.exit_code == 0, result.output
    rows = [line.split(maxsplit=2) for line in result.stdout.splitlines()]
    return {key: (value, origin) for key, value, origin in rows}


def test_a_line_for_llama_server_can_be_pasted() -> None:
    line = {
        "-m": ("model", "a.gguf"), "-md": ("draft", "b.gguf"), "-ngl": ("gpu-layers", "99"), "-fa": ("flash-attn", "on"),
        "-ngld": ("gpu-layers-draft", "99"), "--draft-max": ("draft-max", "16"), "-c": ("ctx-size", "4096"),
        "-dev": ("device", "CUDA0"), "-ts": ("tensor-split", "0,1,1"), "-devd": ("device-draft", "none"),
        "-ctkd": ("cache-type-k-draft", "q8_0"),
    }  # fmt: skip
    found = shown(*(word for flag, (_, value) in line.items() for word in (flag, value)))
    assert {flag: found[key] for flag, (key, _) in line.items()} == {
        flag: (value, f"flag {flag}") for flag, (_, value) in line.items()
    }
    assert found["top-k"] == ("40", "default")


def test_what_the_models_file_recommends_comes_before_the_defaults_alone(tmp_path: Path) -> None:
    def keys(writer: gguf.GGUFWriter) -> None:
        writer.add_float32("general.sampling.temp", 0.3)
        writer.add_int32("general.sampling.top_k", 1)

    file = write_model(tmp_path / "a.gguf", keys=keys)
    found = shown("-m", str(file), "--top-k", "40")
    assert found["temperature"] == ("0.3", f"model's file {file}")
    assert found["top-k"] == ("40", "flag --top-k")


@pytest.mark.parametrize(
    ("line", "key", "value"),
    [
        ("-fa -ngl 3", "flash-attn", "on"),
        ("-fa", "flash-attn", "on"),
        ("-fa 0", "flash-attn", "off"),
        ("-n -1", "predict", "-1"),
        ("-n200", "predict", "200"),
        ("-n=200", "predict", "200"),
        ("--temp=0.3", "temperature", "0.3"),
        ("-ngl=7", "gpu-layers", "7"),
        ("-ngl all", "gpu-layers", "-2"),
        ("--temp 1 --temperature 0.2", "temperature", "0.2"),
        ("-sys -ngl", "system", "-ngl"),
    ],
)
def test_spellings(line: str, key: str, value: str) -> None:
    assert shown(*line.split())[key][0] == value


@pytest.mark.parametrize("flag", [flag for row in settings() for flag in row.spec.flags])
def test_every_flag_of_the_table_exists(flag: str) -> None:
    row = next(row for row in settings() if flag in row.spec.flags)
    value = row.spec.choices[-1] if row.spec.choices else {int: "1", float: "0.5", str: "x", tuple: "x"}[row.kind]
    found = shown(flag, "{}" if row.spec.metavar == "JSON" else value)
    assert sum(origin == f"flag {flag}" for _, origin in found.values()) == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("--help-all", "--help-all comes after a command: spectui chat --help-all ...; spectui --help lists commands."),
        ("run -nglx 3", "There is no flag -nglx for spectui run; did you mean -ngl?"),
        ("run --draft-mx 3", "There is no flag --draft-mx for spectui run; did you mean --draft-max?"),
        ("chat -model a.gguf", "There is no flag -model for spectui chat; did you mean --model?"),
        ("devices --jsno", "There is no flag --jsno for spectui devices."),
        ("chta", "There is no command 'chta' for spectui; did you mean chat?"),
        ("config shwo", "There is no command 'shwo' for spectui config; did you mean show?"),
        ("-m a.gguf", "-m comes after a command: spectui chat -m ...; spectui --help lists commands."),
        ("run --draft 16", "--draft takes the draft model's file; for drafts of 16 tokens write --draft-max 16."),
        ("run -p x --p-min 2", "flag --p-min: p-min must be between 0 and 1, not 2."),
        ("run -p x -c many", "flag -c: ctx-size must be a whole number, not 'many'."),
        ("run -p x -sm columns", "flag -sm: split-mode is one of none, layer, row, tensor, not 'columns'."),
        ("run -p x -P none", "There is no profile 'none', because there is no"),
        ("run -p x --config missing.toml", "The configuration file missing.toml cannot be read: No such file"),
        ("run -p", "Option '-p' requires an argument."),
        ("serve --server http://x", "There is no flag --server for spectui serve"),
        ("run say hello", "Got unexpected extra argument (hello)"),
        ("run hello -p x", "Give one prompt: by itself in quotes, or with -p."),
        ("chat", "spectui chat needs a terminal; for pipes and scripts there are --plain and spectui run."),
    ],
)
def test_a_mistake_gets_one_sentence_and_exit_code_2(arguments: str, sentence: str) -> None:
    result = invoke(*arguments.split())
    assert result.exit_code == 2
    assert result.stderr.startswith(f"spectui: {sentence}")
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


def test_control_characters_in_an_error_are_not_printed() -> None:
    assert "\x1b" not in invoke("\x1b[31mchat").stderr


def test_control_characters_from_a_file_are_not_printed(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('[ui.keys]\n"\\u001b]0;x\\u0007" = "\\u001b[2J\\n"\n[profiles."\\u001bc"]\nmodel = "\\u009b1m"\n')
    result = invoke("config", "show", "--config", str(file), "-P", "\x1bc")
    assert result.exit_code == 0
    assert result.output.replace("\n", "").isprintable()
    assert "ui.keys.?]0;x?" in result.output


def test_init_writes_the_example_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECTUI_CONFIG_DIR", str(tmp_path / "new"))
    target = tmp_path / "new" / "config.toml"
    assert invoke("config", "path").stdout == f"{target}\n"
    assert invoke("config", "init").exit_code == 0
    assert target.read_text(encoding="utf-8").startswith("# spectui's settings")
    target.write_text("# mine", encoding="utf-8")
    again = invoke("config", "init")
    assert (again.exit_code, target.read_text(encoding="utf-8")) == (2, "# mine")
    assert "exists already" in again.stderr


def test_the_directories_are_named_with_their_origins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECTUI_DATA_DIR", str(tmp_path))
    monkeypatch.delenv("SPECTUI_STATE_DIR", raising=False)
    found = shown()
    assert found["data-directory"] == (str(tmp_path), "env SPECTUI_DATA_DIR")
    assert found["state-directory"] == (str(paths.state_directory()), "default")
    assert {"config-directory", "cache-directory"} <= found.keys()
