"""The flags of llama.cpp that spectui accepts without using them, and the table that they come from."""

import os
import subprocess
import sys
from importlib.metadata import version

import pytest
import tomli
from click.testing import CliRunner, Result

from spectui.cli import root
from spectui.config import settings
from spectui.profiles.command_line import llama_flags
from tests.generators.llama_flags import PROGRAMS, TABLE, Option, help_texts, parse, source
from tests.helpers.peers import BIN, NOT_THERE

HELP = """\
----- common params -----

-h,    --help, --usage                  print usage and exit
-t,    --threads N                      number of CPU threads to use during generation (default: -1)
                                        (env: LLAMA_ARG_THREADS)
-fa,   --flash-attn [on|off|auto]       set Flash Attention use ('on', 'off', or 'auto', default: 'auto')
--perf, --no-perf                       whether to enable internal libllama performance timings
-kvo,  --kv-offload, -nkvo, --no-kv-offload
                                        whether to enable KV cache offloading (default: enabled)
-ot,   --override-tensor <tensor name pattern>=<buffer type>,...
                                        override tensor buffer type
--control-vector-layer-range START END
                                        layer range to apply the control vector(s) to, start and end inclusive
                                        - none: use one GPU only
-mu,   --model-url MODEL_URL            model download url (default: unused)
--jinja, --no-jinja                     whether to use jinja template engine for chat (default: enabled)
----- sampling params -----

--typical-p N                    repeat alpha presence penalty (default: 0.00, 0.0 = disabled)
"""


def show(line: str) -> Result:
    return CliRunner().invoke(root, ["config", "show", *line.split()])


@pytest.mark.parametrize(
    ("line", "listed"),
    [
        ("--host=0.0.0.0 -c 5", "--host"),
        ("--control-vector-layer-range 3 9 -c 5", "--control-vector-layer-range"),
        ("--top-n-sigma -1 -c 5", "--top-n-sigma"),
        ("--log_prefix -c 5 --log-prefix", "--log-prefix"),
        ("--no-mmap -c 5", "--no-mmap"),
        ("--models-dir /x -c 5", ""),
    ],
)
def test_as_many_values_are_left_out_as_the_flag_takes(line: str, listed: str) -> None:
    result = show(line)
    assert result.exit_code == 0, result.stderr
    assert "ctx-size 5 flag -c" in " ".join(result.stdout.split())
    assert result.stderr.count(listed) == 1 if listed else not result.stderr


def test_the_window_gets_the_line_too() -> None:
    code = (
        "from spectui.cli import root\n"
        "from spectui.ui.app import SpectuiApp\n"
        "def begin(self, *given, notices, **named):\n"
        "    print(*notices)\n"
        "    raise SystemExit\n"
        "SpectuiApp.__init__ = begin\n"
        "root.main(['chat', '--no-history', '--metrics', '-m', 'x.gguf'])\n"
    )
    environment = os.environ | {"TEXTUAL_DRIVER": "textual.drivers.headless_driver:HeadlessDriver"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=300, check=True, env=environment)
    assert done.stdout.decode() == "These flags of llama.cpp are not used: --metrics.\n"


def test_flags_that_change_the_text_are_named_apart() -> None:
    assert show("--metrics --lora a.gguf --jinja --grammar-file b").stderr == (
        "spectui: These flags of llama.cpp are not used: --metrics, --jinja. spectui cannot do what these ask, so replies "
        "can differ from llama.cpp's: --lora, --grammar-file.\n"
    )


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("config show --hsot x", "There is no flag --hsot for spectui config show."),
        ("config show --ctx-sise 5", "There is no flag --ctx-sise for spectui config show; did you mean --ctx-size?"),
        ("config show --port", "The flag --port needs a value."),
        ("config show -mu x", "spectui takes no model from -mu: give its file with -m, or its repository with -hf."),
        ("chat -p hello", "There is no flag -p for spectui chat"),
        ("chat --list-devices", "There is no flag --list-devices for spectui chat"),
        ("doctor --host x", "There is no flag --host for spectui doctor."),
    ],
)
def test_what_cannot_be_meant_is_refused(line: str, sentence: str) -> None:
    result = CliRunner().invoke(root, line.split())
    assert result.exit_code == 2
    assert result.stderr.startswith(f"spectui: {sentence}")
    assert result.stderr.count("\n") == 1


def test_no_flag_of_spectui_is_in_the_table() -> None:
    theirs = [flag for name in ("switches", "values", "pairs", "models") for flag in llama_flags()[name]]
    ours = [flag for row in settings() if row.spec.section != "ui" for flag in row.spec.flags]
    assert len(theirs) == len(set(theirs)) > 300
    assert not {*theirs} & {*ours, "-hf", "-hfd", "-P", "-p", "-f", "--json", "--continue"}
    assert llama_flags()["text"] < {*theirs}


def test_a_help_text_is_read() -> None:
    options = {option.flags[0]: option for option in parse(HELP)}
    assert options["-t"] == Option(("-t", "--threads"), 1, "common params")
    assert options["-kvo"] == Option(("-kvo", "--kv-offload", "-nkvo", "--no-kv-offload"), 0, "common params")
    assert options["-ot"] == Option(("-ot", "--override-tensor"), 1, "common params")
    assert options["--control-vector-layer-range"].arity == 2
    assert options["--typical-p"] == Option(("--typical-p",), 1, "sampling params")
    made = tomli.loads(source([HELP]))
    assert made["switches"].split()[:3] == ["-dio", "--direct-io", "--jinja"]
    assert made["values"].split() == ["--typical-p"]
    assert made["models"].split() == ["--model-url", "-mu"]
    assert made["text"].split() == ["--control-vector-layer-range", "--no-jinja", "--typical-p"]


def test_the_table_is_of_the_installed_llama_cpp_python() -> None:
    assert llama_flags()["version"] == {version("llama-cpp-python")}, "run: python -m tests.generators.llama_flags DIR"


def test_the_table_is_what_the_programs_say() -> None:
    if not all((BIN / name).exists() for name in PROGRAMS):
        pytest.skip(NOT_THERE)
    assert TABLE.read_text(encoding="utf-8") == source(help_texts(BIN)), f"run: python -m tests.generators.llama_flags {BIN}"
