"""Plain scripts and services around llama-server: what becomes a profile, and the sentence for what only a run can tell."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from spectui.errors import SpectuiError, UsageError
from spectui.profiles import llama_server
from spectui.profiles.commands.services import OF_COMPOSE, OF_SYSTEMD
from spectui.profiles.formats import FORMATS, detect
from spectui.profiles.imported import ENVIRONMENT, NOT_KNOWN, NOT_USED, STARTED_BY

RUN = "llama-server -m /m/a.gguf"
WINDOWS = r"llama-server.exe -m C:\m\a.gguf"
FIVE = {"model": "/m/a.gguf", "ctx_size": 5}


def left_out(form: str, text: str, file: Path | None = None, number: int = 0) -> dict[str, list[str]]:
    """What was left out of a profile of a text, by reason."""
    source = FORMATS[form].read(text, file)
    reasons: dict[str, list[str]] = {}
    for reason, what in (*source.profiles[number].left_out, *source.left_out):
        reasons.setdefault(reason, []).append(what)
    return reasons


@pytest.mark.parametrize(
    "text",
    [
        f"C=5 # five\n{RUN} \\\n  -c $C \\\n  -a \"it's\"\n",
        'A="-m /m/a.gguf"; B="$A -c 5"\nllama-server $B "${NONE-}" ${NONE:-}',
        f'A=(-ngl 9  # layers, don\'t\n  "-a" "x y")\nA+=(-c 5)\n{RUN} "${{A[@]}}"',
        f'A=()\n{RUN} "${{A[@]}}" -c ${{C:-5}} ${{A[@]+"${{A[@]}}"}}',
        f': "${{C:=5}}"\nexport LLAMA_ARG_TOP_K=7\n{RUN} -c "$C"',
        'M="/m/it\'s \\"q\\" \\$b.gguf"\nllama-server -m "$M" -a a\\ b',
        f"cat <<'END'\n{RUN} -c 6\nEND\nexec {RUN} -c 5 > /dev/null 2>&1",
        f'if [ ! -d /m ]; then echo "no (models)"; fi\n[ -n "$X" ] || echo none\n{RUN} -c 5 | cat',
        f"start() {{\n  local C=5\n  {RUN} -c $C\n}}\nstart",
        f"set -- -c 5\nwhile true; do {RUN} \"$@\"; break; done",
        'BIN=llama-server; M=/m/a.gguf\nif x; then BIN=llama-server; fi\nexec nice -n 5 env A=1 "${BIN}" -m $M -c 5',
        f"bash -c 'cd /tmp && exec {RUN} -c 5'",
        'cd "$(cd "$(dirname "$0")/." && pwd)/sub"\n../llama-server -m a.gguf -c 5',
    ],
)  # fmt: skip
def test_what_a_plain_script_starts_is_what_bash_starts(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("bash") is None:
        pytest.skip("there is no bash")
    server = tmp_path / "llama-server"
    server.write_text(f'#!/bin/bash\nprintf "%s\\0" "$@" > {tmp_path}/given\nprintf %s "$PWD" > {tmp_path}/where\n')
    server.chmod(0o755)
    (tmp_path / "sub").mkdir()
    (tmp_path / "start.sh").write_text(text)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    subprocess.run(["bash", str(tmp_path / "start.sh")], check=True, timeout=60, capture_output=True)
    (profile,) = llama_server.read(text, tmp_path / "start.sh").profiles
    monkeypatch.chdir((tmp_path / "where").read_text())
    (given,) = llama_server.read(
        shlex.join(["llama-server", *(tmp_path / "given").read_text().split("\0")[:-1]])
    ).profiles
    assert {**profile.settings} | {"top_k": 0} == {**given.settings} | {"top_k": 0}


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("batch", f"@echo off\nREM mine ^\nset C=5\n{WINDOWS} ^\n  -c %C%\npause"),
        ("batch", 'set DIR=C:\\m\nset "M=%DIR%\\a.gguf"\nstart "my server" /B "C:\\l l\\llama-server.exe" -m "%M%" -c 5'),
        ("batch", f"if not exist C:\\m (\n  echo no\n  exit /b 1\n)\ncall {WINDOWS} -c 5 > log.txt 2>&1"),
        ("batch", "set LLAMA_ARG_CTX_SIZE=5\ncd /d C:\\m\nllama-server.exe -m a.gguf & pause"),
        ("batch", f'cmd /k "{WINDOWS} -c 5"'),
        ("powershell", "$m = 'C:\\m\\a.gguf'\n$c=5\n& \"C:\\l l\\llama-server.exe\" `\n  -m $m -c $c # five"),
        ("powershell", "$a = @(\n  \"-m\", 'C:\\m\\a.gguf'  # it's\n)\n$a += '-c', '5'\n.\\llama-server.exe @a"),
        ("powershell", "param([string]$Dir = \"C:\\m\", [int]$Ctx = 5,\n  [switch]$X)\nllama-server -m $Dir\\a.gguf -c $Ctx"),
        ("powershell", "$m = Join-Path 'C:\\m' 'a.gguf'\nif ($x) { 1 }\n$env:LLAMA_ARG_CTX_SIZE = 5\nllama-server -m $m"),
        ("powershell", "Start-Process -FilePath llama-server.exe -ArgumentList '-m', 'C:\\m\\a.gguf', '-c', '5' -NoNewWindow"),
        ("powershell", "$p = Start-Process llama-server.exe -ArgumentList \"-m `\"C:\\m\\a.gguf`\" -c 5\" -PassThru"),
    ],
)  # fmt: skip
def test_plain_scripts_of_windows(form: str, text: str) -> None:
    assert detect(text, "-") == form
    assert FORMATS[form].read(text, None).profiles[0].settings == {"model": r"C:\m\a.gguf", "ctx_size": 5}


@pytest.mark.parametrize(
    ("form", "text", "unknown"),
    [
        ("llama-server", f'C=5\nif x; then C=6; fi\n{RUN} -c $C "$@" -t $(nproc)', ["-c C (line 2)", "$@", "-t $(nproc)"]),
        ("llama-server", f'A=(-ngl 9)\nnvidia-smi && A+=(-c 5)\n{RUN} "${{A[@]}}"', ["-c 5"]),
        ("llama-server", f"C=5\nlet C=6\n{RUN} -c $C", ["-c C (line 2)"]),
        ("llama-server", f"x && C=6\n{RUN} -c ${{C:-5}}", ["-c ${C:-5}"]),
        ("llama-server", f"C=5\neval x\n{RUN} -c $C", ["-c C (line 2)"]),
        ("llama-server", f"declare -i C=2+3\n{RUN} -c $C", ["-c C (line 1)"]),
        ("batch", f"set C=5\nif errorlevel 2 goto run\nset C=6\n:run\n{WINDOWS} -c %C% %*", ["-c C (line 3)", "%*"]),
        ("batch", f"set /p C=context?\n{WINDOWS} -c %C%", ["-c %C%"]),
        ("powershell", f"$c = 5\nif ($x) {{ $c = 6 }}\n{WINDOWS} -c $c @args", ["-c c (line 2)", "@args"]),
        ("powershell", f"$c = 5\n$c++\n{WINDOWS} -c $c -t (Get-Number)", ["-c $c (line 2)", "-t (Get-Number)"]),
    ],
)  # fmt: skip
def test_what_only_a_run_can_tell_is_listed_and_not_guessed(form: str, text: str, unknown: list[str]) -> None:
    assert left_out(form, text)[NOT_KNOWN] == unknown


@pytest.mark.parametrize(
    ("form", "text", "sentence"),
    [
        ("llama-server", "", "There is no llama-server command in it: start it and use --running"),
        ("llama-server", f"echo\ntmux new '{RUN}'", "There is no llama-server command in it, and line 2 only names it: start"),
        ("llama-server", f"{RUN}\n{RUN} -c 5\n", "There are 2 commands of llama.cpp (lines 1, 2): leave one in the file."),
        ("llama-server", "M=a\nx && M=b\nllama-server -m $M", "-m is M (line 2), which only a run can tell: start it"),
        ("llama-server", "cd $X\nllama-server -m a.gguf", "-m a.gguf starts at a directory that only a run can tell: start it"),
        ("llama-server", "x && cd /m\nllama-server -m a.gguf", "-m a.gguf starts at a directory that only a run can tell"),
        ("llama-server", "llama-server -m /m/*.gguf", "-m is /m/*.gguf, which only a run can tell"),
        ("llama-server", "llama-server $ARGS", "$ARGS may name the model, and only a run can tell it: start it and use"),
        ("llama-server", "\nllama-server -m 'x", "A line is cut off, or quotes or brackets are not closed (line 2): give the"),
        ("llama-server", f"if true; then {RUN}", "A line is cut off"),
        ("llama-server", "A=xx\n" + "A=$A$A$A$A\n" * 30 + RUN, "Its variables grow without end."),
        ("llama-server", "docker exec box llama-server -m /m/a.gguf", "it is started by docker exec, whose paths are those of"),
        ("llama-server", "docker run llama.cpp -m /m/a.gguf", "its -m /m/a.gguf is a path in a container, and no volume"),
        ("batch", f'{WINDOWS} -sys "x', "A line is cut off"),
        ("batch", "llama-server -m %USERPROFILE%\\a.gguf", "-m is %USERPROFILE%\\a.gguf, which only a run can tell: start it"),
        ("powershell", "$a = @('-m', 'x'\nllama-server @a", "A line is cut off"),
        ("powershell", "$a = New-Object X\n$a.Add('-m')\nllama-server @a", "$a (line 2) may name the model, and only a run"),
        ("systemd", "[Service]\nExecStart=vllm serve\n", "its ExecStart= starts 'vllm', which is no program of llama.cpp."),
        ("systemd", "[Service]\nExecStart=llama-server -m $M\n", "-m is $M, which only a run can tell: start it and use"),
        ("systemd", "[Unit]\nA=b\n", "There is no [Service] in it"),
        ("compose", "services: {}\n", "There are no services in it"),
        ("compose", "services: {a: {image: redis}}", "No service in it can be imported; of a: it starts the image 'redis'"),
    ],
)  # fmt: skip
def test_a_script_that_is_not_plain_gets_one_sentence(form: str, text: str, sentence: str) -> None:
    with pytest.raises(SpectuiError) as error:
        FORMATS[form].read(text, None)
    assert str(error.value).startswith(sentence) and "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["Makefile", "Dockerfile", "x.plist", "serve.py", "README.md"])
def test_a_file_of_another_kind_gets_one_sentence(name: str) -> None:
    with pytest.raises(
        UsageError, match="reads no file of this kind: start it and use --running, or paste the command"
    ):
        detect(RUN, name)


def test_other_commands_words_are_not_printed() -> None:
    text = f"curl -H 'Authorization: Bearer geheim'\nAPI=geheim\nexport LLAMA_KEY=geheim CUDA_VISIBLE_DEVICES=0\nsudo {RUN}"
    assert left_out("llama-server", text) == {STARTED_BY: ["sudo"], ENVIRONMENT: ["CUDA_VISIBLE_DEVICES=0"]}


@pytest.mark.parametrize(
    "line",
    [
        "docker run --rm -it -p8080:8080 -v /srv:/models ghcr.io/ggml-org/llama.cpp:server -m /models/a.gguf -c 5",
        "sudo -E podman container run --mount type=bind,src=/srv,dst=/m -w /m -e LLAMA_ARG_CTX_SIZE=5 llama.cpp -m a.gguf",
        "nice -n 5 docker run -v /srv:/m --entrypoint /app/llama-server mine:latest -m /m/a.gguf -c 5",
        "cd /\ndocker run -v ./srv:/m llama.cpp:full --server -m /m/a.gguf -c 5",
    ],
)
def test_a_containers_paths_become_the_machines(line: str) -> None:
    assert llama_server.read(line).profiles[0].settings == {"model": "/srv/a.gguf", "ctx_size": 5}


def test_a_file_of_variables_alone_is_a_profile() -> None:
    assert detect("", ".env") == "llama-server"
    assert llama_server.read("LLAMA_ARG_MODEL=/m/a.gguf\nLLAMA_ARG_CTX_SIZE=5\n").profiles[0].settings == FIVE


UNIT = """\
[Unit]
After=network-online.target
[Service]
User=llama
WorkingDirectory=/opt/llama.cpp
Environment="CUDA_VISIBLE_DEVICES=0" LLAMA_ARG_CTX_SIZE=8192
Environment='MODELS=/srv/my models'
ExecStart=/opt/llama.cpp/build/bin/llama-server \\
    --model "${MODELS}/a.gguf" \\
    # --port 8081 \\
    --n-gpu-layers 99 $EXTRA --alias %i \\
    --port 8080
[Install]
WantedBy=multi-user.target
"""


def test_a_unit_of_systemd(tmp_path: Path) -> None:
    assert detect(UNIT, "-") == detect("", "a.service") == "systemd"
    (profile,) = FORMATS["systemd"].read(UNIT, Path("/etc/llama@coder.service")).profiles
    assert profile.settings == {"model": "/srv/my models/a.gguf", "ctx_size": 8192, "gpu_layers": 99}
    assert profile.name == "coder"
    assert left_out("systemd", UNIT) == {
        ENVIRONMENT: ["CUDA_VISIBLE_DEVICES=0"], NOT_KNOWN: ["$EXTRA"], NOT_USED: ["--port 8080"], OF_SYSTEMD: ["User"],
    }  # fmt: skip
    (tmp_path / "env").write_text("MODEL='/m/a b.gguf'\nexport N=9\n")
    unit = f"[Service]\nEnvironmentFile=-{tmp_path}/none\nEnvironmentFile={tmp_path}/env\nWorkingDirectory=/m\n"
    unit += 'ExecStart=old\nExecStart=\nEnvironment="MORE=-ngl 9"\n'
    for line in ("llama-server -m ${MODEL} $MORE", "/bin/sh -c 'exec llama-server -m \"$MODEL\" -ngl $N'"):
        found = FORMATS["systemd"].read(f"{unit}ExecStart={line}\n", None).profiles[0]
        assert found.settings == {"model": "/m/a b.gguf", "gpu_layers": 9}


COMPOSE = """\
services:
  coder:
    image: ghcr.io/ggml-org/llama.cpp:server-cuda
    restart: unless-stopped
    volumes: ["./models:/models:ro", {type: bind, source: /srv/drafts, target: /drafts}]
    environment: [CUDA_VISIBLE_DEVICES=0, LLAMA_ARG_N_GPU_LAYERS=99]
    command: >
      -m /models/${SPECTUI_MODEL:-a b}.gguf
      --ctx-size ${SPECTUI_CTX} -md /drafts/b.gguf --spec-type draft-simple
      -t ${SPECTUI_THREADS}
  chat:
    build: .
    volumes: ["~/m:/m"]
    entrypoint: ["/app/llama-server"]
    command: ["-m", "/m/b.gguf", "--temp", "0.5"]
  lost:
    image: llama.cpp
    command: -m /elsewhere/c.gguf
  webui:
    image: ghcr.io/open-webui/open-webui:main
"""


def test_services_of_compose(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("SPECTUI_CTX=8192\nSPECTUI_MODEL='q'\n")
    source = FORMATS["compose"].read(COMPOSE, tmp_path / "compose.yml")
    assert {profile.name: profile.settings for profile in source.profiles} == {
        "coder": {"model": f"{tmp_path}/models/q.gguf", "draft": "/srv/drafts/b.gguf", "ctx_size": 8192, "gpu_layers": 99,
                  "drafter": "model"},
        "chat": {"model": os.path.expanduser("~/m/b.gguf"), "temperature": 0.5},
    }  # fmt: skip
    reasons = left_out("compose", COMPOSE, tmp_path / "compose.yml")
    assert (reasons[OF_COMPOSE], reasons[NOT_KNOWN]) == (["restart"], ["-t ${SPECTUI_THREADS}"])
    assert source.refused == {
        "lost": "its -m /elsewhere/c.gguf is a path in a container, and no volume of it holds that.",
        "webui": "it starts the image 'ghcr.io/open-webui/open-webui:main', which is not llama.cpp's.",
    }
