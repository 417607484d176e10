"""Makefiles as people write them, and sections and scripts that give no profile."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from spectui.cli.config.importing import import_command
from spectui.errors import SpectuiError
from spectui.profiles.formats import FORMATS, detect
from spectui.profiles.imported import NOT_KNOWN, NOT_USED
from spectui.profiles.llama_server import OTHER_LINES

MAKEFILE = """\
MODEL ?= /m/a.gguf
CTX := 4096
SERVER = ./llama-server
FLAGS = -c $(CTX)   # the context
FLAGS += -t $(shell nproc)

.PHONY: serve stop
serve: ## start it
\t@echo "starting"
\tcd /opt && \\
\t  $(SERVER) -m ${MODEL} $(FLAGS) \\
\t\t-ngl 99 --port $${PORT:-8080}
\tcurl localhost

stop:
\t-pkill llama-server
"""


def test_a_makefile(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MODEL", "CTX", "SERVER", "FLAGS", "PORT"):
        monkeypatch.delenv(name, raising=False)
    assert detect(MAKEFILE, "-") == detect("", "Makefile") == detect("", "run.mk") == "make"
    found = FORMATS["make"].read(MAKEFILE, None)
    (profile,) = found.profiles
    assert profile.settings == {"model": "/m/a.gguf", "ctx_size": 4096, "gpu_layers": 99}
    assert [*profile.left_out, *found.left_out] == [
        (NOT_USED, "--port 8080"), (NOT_KNOWN, "-t $(shell nproc)"), (OTHER_LINES, "curl localhost"),
    ]  # fmt: skip


def test_each_line_of_a_recipe_has_a_shell_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("C", raising=False)
    recipe = "a:\n\tcd /m\n\tC=5; export C\n\tllama-server -m a.gguf -c $${C:-6}\n"
    (profile,) = FORMATS["make"].read(recipe, None).profiles
    assert profile.settings == {"model": str(tmp_path / "a.gguf"), "ctx_size": 6}
    (profile,) = FORMATS["make"].read(f".ONESHELL:\n{recipe}", None).profiles
    assert profile.settings == {"model": "/m/a.gguf", "ctx_size": 5}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a:\n\tllama-server -m /a\nb:\n\tllama-server -m /b\n", "There are 2 commands of llama.cpp: leave one"),
        ("A = $(B)\nB = $(A)\na: ; llama-server -m $(A)\n", "Its variables hold one another, or grow without end."),
        ("a:\n\tllama-server -m $(NOWHERE)/a.gguf\n", "-m is ${NOWHERE}/a.gguf, which only a run can tell"),
        ("a:\n\tllama-server \\", "A line is cut off"),
        ("a:\n\tllama-server -m 'x\n", "A line is cut off"),
        (
            "M = /a\nifdef BIG\nM = /b\nendif\na:\n\tllama-server -m $(M)\n",
            "-m is $(value M), which only a run can tell",
        ),
        ("M = /a\na: M = /b\na:\n\tllama-server -m $(M)\n", "-m is $(value M), which only a run can tell"),
        ("a:\n\tcc -o a a.c\n", "There is no llama-server command: it starts 'cc'"),
    ],
)
def test_a_bad_makefile_gets_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(SpectuiError) as error:
        FORMATS["make"].read(text, None)
    assert str(error.value).startswith(sentence)


def test_a_section_that_cannot_be_is_no_reason_to_lose_the_others() -> None:
    found = FORMATS["preset"].read("[a]\nmodel =\n[b]\nmodel = /m/b.gguf\n", None)
    assert [each.name for each in found.profiles] == ["b"]
    assert found.refused == {"a": "--model is empty: write the file's path there."}
    with pytest.raises(SpectuiError, match="No section in it can be imported; of a: --model is empty"):
        FORMATS["preset"].read("[a]\nmodel =\n", None)


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("a.conf", "server { listen 80; }", "gives nothing that a profile holds"),
        ("a.desktop", "[Desktop Entry]\nExec=llama-server -m /m/a.gguf\n", "gives nothing that a profile holds"),
        ("a.ps1", "$p = @{ FilePath = 'llama-server' }\nStart-Process @p", "gives nothing that a profile holds"),
        (
            "Dockerfile",
            'FROM llama.cpp:server\nCMD ["-m", "/m/a.gguf"]\n',
            "It makes an image, whose paths are those of",
        ),
        (
            "a.yaml",
            "apiVersion: v1\nkind: Pod\nspec: {}\n",
            "It is for Kubernetes, whose paths are those of a container",
        ),
        ("a.yml", "- hosts: all\n  tasks: []\n", "It is a playbook of Ansible: give the command that it starts."),
        (
            "a.nix",
            "{ services.llama-cpp.enable = true; }",
            "It is a file for Nix: give the command that starts llama-server",
        ),
        ("a.fish", "if true\n  llama-server -m /m/a.gguf\nend\n", "It is a script for fish"),
        ("a.ini", "[*]\nctx-size = 5\n", "It has no section but [*], which names no model"),
        (
            "a.sh",
            "llama-server --models-preset /m/p.ini -ngl 9\n",
            "its models in a preset file: import /m/p.ini instead.",
        ),
        (
            "a.env",
            "LLAMA_ARG_MODEL='/m/a.gguf\nLLAMA_ARG_CTX_SIZE=5\n",
            "A line is cut off, or quotes or brackets are not",
        ),
        (
            "a.env",
            "LLAMA_ARG_MODEL=$SPECTUI_NOWHERE/a.gguf\n",
            "which only a run can tell: write the file's path there.",
        ),
        ("a.env", "CTX=5\n", "It has no variable LLAMA_ARG_..., which llama-server reads"),
        ("justfile", "serve:\n    llama-server -m {{model}}\n", "-m is {{model}}, which only a run can tell"),
    ],
)
def test_no_empty_profile_is_written(tmp_path: Path, name: str, text: str, sentence: str) -> None:
    (tmp_path / name).write_text(text)
    config = tmp_path / "config.toml"
    result = CliRunner().invoke(import_command, [str(tmp_path / name), "--as", "x", "--config", str(config)])
    assert isinstance(result.exception, SpectuiError) and sentence in str(result.exception)
    assert not config.exists()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.env", 'D=/m\nLLAMA_ARG_MODEL="$D/a b.gguf" # it\nLLAMA_ARG_CTX_SIZE=5\nOTHER=x\n'),
        (
            "README.md",
            "# Serve (it's simple\n\n```bash\nllama-server -m '/m/a b.gguf' \\\n  -c 5\n```\n\nDone: see (b\n",
        ),
        (
            "a.sh",
            "cat > /dev/null <<'E'\n```\nllama-server -m /wrong.gguf\n```\nE\nllama-server -m '/m/a b.gguf' -c 5\n",
        ),
        ("run", "#!/bin/sh\n: '\n```\nllama-server\n```\n'\nllama-server -m '/m/a b.gguf' -c 5\n"),
        ("a.bat", '```bat\nllama-server.exe -m "/m/a b.gguf" -c 5\n```\n'),
        ("a.zsh", "a=(-m '/m/a b.gguf' -c 5)\nllama-server $a $a[9]\n"),
    ],
)
def test_files_of_variables_pages_and_zsh(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    config = tmp_path / "config.toml"
    result = CliRunner().invoke(import_command, [str(tmp_path / name), "--config", str(config)])
    assert result.exit_code == 0, result.output
    assert config.read_text() == '[profiles."a b"]\nmodel = "/m/a b.gguf"\nctx-size = 5\n'
