"""Plain scripts and services around llama-server: what becomes a profile, and the sentence for what only a run can tell."""

import contextlib
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from spectui.errors import SpectuiError, UsageError
from spectui.profiles.formats import FORMATS, detect
from spectui.profiles.imported import ENVIRONMENT, NOT_USED, RUN_IT, STARTED_BY, ImportedFile

RUN = "llama-server -m /m/a.gguf"
WINDOWS = r"llama-server.exe -m C:\m\a.gguf"
FIVE = {"model": "/m/a.gguf", "ctx_size": 5}


def left_out(source: ImportedFile) -> dict[str, list[str]]:
    """What was left out of the first profile of a text and of the text itself, by reason."""
    reasons: dict[str, list[str]] = {}
    for reason, what in (*source.profiles[0].left_out, *source.left_out):
        reasons.setdefault(reason, []).append(what)
    return reasons


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where scripts run whose llama-server writes down its arguments and its directory, when it is started first."""
    if shutil.which("bash") is None:
        pytest.skip("there is no bash")
    server = tmp_path / "llama-server"
    server.write_text(
        '#!/bin/bash\n[ -e "$GIVEN" ] || { printf "%s\\0" "$PWD" "$@" > "$GIVEN.new"; mv "$GIVEN.new" "$GIVEN"; }\n'
    )
    server.chmod(0o755)
    tmp_path.joinpath(*["sub"] * 8).mkdir(parents=True)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("GIVEN", str(tmp_path / "given"))
    monkeypatch.delenv("C", raising=False)
    return tmp_path


def assert_bash_gives_the_same(text: str, directory: Path) -> None:
    """Read a script as bash runs it; one that is refused is not run."""
    script = directory / "start.sh"
    script.write_text(text)
    with contextlib.chdir(directory):
        (profile,) = FORMATS["llama-server"].read(text, script).profiles
        (directory / "given").unlink(missing_ok=True)
        subprocess.run(["bash", str(script)], timeout=60, capture_output=True, stdin=subprocess.DEVNULL)
    if not (directory / "given").exists():
        return  # bash stopped before it, such as at an error
    where, *words = (directory / "given").read_text().split("\0")[:-1]
    with contextlib.chdir(where):
        (given,) = FORMATS["llama-server"].read(shlex.join(["llama-server", *words]), None).profiles
    assert {**profile.settings} | {"top_k": 0} == {**given.settings} | {"top_k": 0}, text


@pytest.mark.parametrize(
    "text",
    [
        f'C=5 # five\n{RUN} \\\n  -c $C \\\n  -a "it\'s"\n',
        'A="-m /m/a.gguf"; B="$A -c 5"\nllama-server $B "${NONE:-}" ${NONE:-}',
        f'A=(-ngl 9  # layers, don\'t\n  "-a" "x y")\nA+=(-c 5)\n{RUN} "${{A[@]}}"',
        f'C="-c 6"\nset -eu\nlog() {{\n  echo "C=$1"\n}}\nif [ "$C" = x ]; then exit 1; fi\nC=5\nlog x\n{RUN} -c "$C" "$@"',
        f'main() {{\n  {RUN} -c 5\n}}\nmain "$@"',
        f'V="-c "\n{RUN} $V 5',
        f"export LLAMA_ARG_TOP_K=7\n{RUN} -c ${{C:-5}}",
        'M="/m/it\'s \\"q\\" \\$b.gguf"\nllama-server -m "$M" -a a\\ b',
        f"cat <<'END'\n{RUN} -c 6\nEND\nexec {RUN} -c 5 > /dev/null 2>&1",
        f'if [ ! -d /m ]; then echo "no (models)"; fi\n[ -n "$X" ] || echo none\n{RUN} -c 5 | cat',
        f'C=5\nstart() {{\n  {RUN} -c $C\n}}\nstart "$@"',
        f'C=5\nwhile true; do {RUN} -c "$C"; break; done',
        f'{RUN} -c 5 "$@" $@',
        f'{RUN} -c "${{1:-5}}"',
        'BIN=llama-server; M=/m/a.gguf\nif [ -z "$M" ]; then\n  exit 1\nfi\nexec nice -n 5 env A=1 "${BIN}" -m $M -c 5',
        'cd "$(cd "$(dirname "$0")/." && pwd)/sub" || exit 1\n../llama-server -m a.gguf -c 5',
        'D="$(cd "$(dirname "${BASH_SOURCE[0]}")" >/dev/null && pwd)"\nM=$D/sub/../a.gguf\nllama-server -m "$M"',
    ],
)
def test_what_a_plain_script_starts_is_what_bash_starts(text: str, directory: Path) -> None:
    assert_bash_gives_the_same(text, directory)
    assert (directory / "given").exists()


LINES = st.sampled_from(
    ["C=5", "C=6", 'B="$C"', 'D="-c $C -ngl 3"', "C=${C:-3}", "C+=1", 'C="4" # x', "C=5 B=6", 'A+=(-c "$C")', "A=(-ngl 2)",
     'A+=(-a "x y")', 'A=("${A[@]}" -b 7)', "A[0]=-c", "M=/m/a.gguf", 'M="/m/a b.gguf"', 'if [ -n "$C" ]; then', "else", "fi",
     "for C in 7 8; do", "done", "f() {", "}", "f -c 9", "( C=4; cd sub )", "true && C=8", "C=3 | cat", "C=1 &",
     "read -r C <<< 4", "let C=2", "unset C A", "set -- -c 4", "cd sub; pwd", "eval C=7", "C=$((C+1))", "((C++))",
     "case $C in", "5) C=7 ;;", "(6) f ;;", "*) M=/m/z.gguf ;;", "esac", "source ./none.sh", "export C=7", 'export "C=7"',
     "cat <<E", "E", ': "${C:=7}"', "printf -v C 8", "declare -i C=3+3", "time C=3", "C=2 true", 'V=" -c 5"', "shift; f",
     "f() { C=5; }", "X=$((C=6))", "shift", "IFS=,", 'C="5,6"', "export C", "set -a", "trap 'C=3' DEBUG", "D[0]=x",
     "f() { llama-server -m a.gguf -c ${C:-3}; }", "[ $C = 5 ] || { C=4; }", "(cd sub)", "llama-server -m /m/a.gguf$V",
     'llama-server -m "$M" -c $C', 'exec llama-server -m "${M:-/x.gguf}" "${A[@]}"', "llama-server -m /m/a.gguf -c ${B:-3} $D",
     'llama-server -m "$PWD/x.gguf" ${A[@]} "$@"', "llama-server -m a.gguf -c ${1:-5} || true", "llama-server -m a$C.gguf $V"]
)  # fmt: skip


@hypothesis_settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=st.lists(LINES, max_size=8))
def test_random_scripts_start_what_bash_starts_or_are_refused(lines: list[str], directory: Path) -> None:
    with contextlib.suppress(UsageError):
        assert_bash_gives_the_same("\n".join(lines), directory)


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("batch", f"@echo off\nREM mine ^\nset C=5\n{WINDOWS} ^\n  -c %C%\npause"),
        ("batch", 'set DIR=C:\\m\nset "M=%DIR%\\a.gguf"\nstart "my server" /B "C:\\l l\\llama-server.exe" -m "%M%" -c 5'),
        ("batch", f"if not exist C:\\m (\n  echo no\n  exit /b 1\n)\ncall {WINDOWS} -c 5 > log.txt 2>&1"),
        ("batch", "set LLAMA_ARG_CTX_SIZE=5\ncd /d C:\\m\nllama-server.exe -m a.gguf & pause"),
        ("powershell", "$m = 'C:\\m\\a.gguf'\n$c=5\n& \"C:\\l l\\llama-server.exe\" `\n  -m $m -c $c # five"),
        ("powershell", "$a = @(\n  \"-m\", 'C:\\m\\a.gguf'  # it's\n)\n$a += '-c', '5'\n.\\llama-server.exe @a"),
        ("powershell", "$m = 'C:\\m'\nif ($x) {}\n$env:LLAMA_ARG_CTX_SIZE = 5\n$M = \"$m\\a.gguf\"\nllama-server -m $M"),
    ],
)
def test_plain_scripts_of_windows(form: str, text: str) -> None:
    assert FORMATS[form].read(text, None).profiles[0].settings == {"model": r"C:\m\a.gguf", "ctx_size": 5}


NOT_PLAIN = {
    "llama-server": [
        (2, f"C=5\nif x; then C=6; fi\n{RUN} -c $C"), (1, f"f() {{ C=6; }}\nC=5\nf\n{RUN} -c $C"),
        (2, f"f() {{\n{RUN} -c $C\n}}\nC=5\nf"), (3, f"C=5\nf() {{\n{RUN} -c ${{D:-5}}\n}}\nD=6\nf"),
        (1, "f() { llama-server -m a.gguf; }\ncd /m\nf"), (2, f'A=(-ngl 9)\nnvidia-smi && A+=(-c 5)\n{RUN} "${{A[@]}}"'),
        (1, f"((C++))\nC+=1\n{RUN} -c $C"), (2, f"C=5\nlet C=6\n{RUN} -c $C"), (2, f"C=5\neval x\n{RUN} -c $C"),
        (1, f"x && C=6\n{RUN} -c ${{C:-5}}"),
        (2, f": ${{C:=5}}\n{RUN} -c ${{C:-6}}"), (1, f"IFS= read -r C\n{RUN} -c ${{C:-6}}"),
        (1, f"declare -i C=2+3\n{RUN} -c $C"), (1, f"declare -i C\nC=2\nC+=3\n{RUN} -c $C"), (2, f'set -- -c 5\n{RUN} "$@"'),
        (1, f"f() {{ {RUN} -c ${{1:-5}}; }}\nf 6"), (1, f'f() {{ {RUN} "$@"; }}\nf -c 6'), (1, f"T=$(nproc)\n{RUN} -t $T"),
        (1, "for m in a b; do\nllama-server -m $m\ndone"), (1, "llama-server $ARGS"), (1, "llama-server -m /m/*.gguf"),
        (1, "cd $X/..\nllama-server -m a.gguf"), (1, "x && cd /m\nllama-server -m a.gguf"), (2, "\nllama-server -m 'x"),
        (2, f"C=5\nX=$((C=6))\n{RUN} -c $C"), (2, f"A='-c 5'\nIFS=,\n{RUN} $A"), (2, f"C=5\nprintf -vC 6\n{RUN} -c $C"),
        (2, f"C=5\nf() {{ C=5; }}\nC=6\nf\n{RUN} -c $C"), (2, f"C=5\ntrap 'C=6' DEBUG\n{RUN} -c $C"),
        (2, f"source .env\n{RUN} -c ${{C:-5}}"), (2, f"export $(cat .env)\n{RUN} -c ${{C:-5}}"),
        (1, f'while read -r L; do export "$L"; done < .env; {RUN} -c ${{C:-5}}'), (2, f"V=' -c 5'\n{RUN}$V"),
        (2, f'A=(-c 5)\n{RUN} ${{A[*]}}'), (1, f"export A=1 LLAMA_ARG_TOP_K=5\n{RUN}"), (2, f"A=5\n{RUN} -c ${{A-5}}"),
    ],
    "batch": [
        (1, f'{WINDOWS} -sys "x'), (4, f"set C=5\nsetlocal\nset C=6\nendlocal\n{WINDOWS} -c %C%"),
        (1, "if x cd C:\\m\nllama-server -m a"),
        (3, f"set C=5\nif errorlevel 2 goto run\nset C=6\n:run\n{WINDOWS} -c %C%"), (1, f"set /p C=context?\n{WINDOWS} -c %C%"),
        (2, f"set C=5\nfor %%f in (1 2) do set C=%%f\n{WINDOWS} -c %C%"), (1, f"set C=5 & {WINDOWS} -c %C%"),
        (2, f"set C=5\nfor /f %%f in (x.env) do set %%f\n{WINDOWS} -c %C%"), (2, f"set C=5\ncall other.bat\n{WINDOWS} -c %C%"),
        (1, "llama-server -m %SPECTUI_NO%\\a.gguf"), (1, "set M=C:\\Files (x86)\\a.gguf\nllama-server -m %M%"),
        (1, f"{WINDOWS}(1).gguf"),
    ],
    "powershell": [
        (1, "$a = @('-m', 'x'\nllama-server @a"), (2, f"$c = 5\nforeach ($c in 6, 7) {{ }}\n{WINDOWS} -c $c"),
        (2, f"$c = 5\n$c++\n{WINDOWS} -c $c"),
        (2, f"$c = 5\nGet-Date -OutVariable c\n{WINDOWS} -c $c"), (2, f"$c = 5\nif ($x) {{ $c = 6 }}\n{WINDOWS} -c $c"),
        (2, f"$c = 5\n$c += 1\n{WINDOWS} -c $c"), (1, f"{WINDOWS} @args"),
        (1, "$m = Join-Path 'C:\\m' 'a.gguf'\nllama-server -m $m"),
        (2, f"$c = 5\n${{c}} = 6\n{WINDOWS} -c $c"), (2, f"$c = 5\n$c, $d = 6, 7\n{WINDOWS} -c $c"),
        (2, f"$c = 5\nfunction f($c) {{\n{WINDOWS} -c $c\n}}\nf 6"),
        (2, "$a = @('-m')\n$a.Add('x')\nllama-server @a"), (1, f"{WINDOWS} -ts 3,1"), (1, "llama-server -m 'C:\\it''s.gguf'"),
    ],
    "systemd": [
        (2, "[Service]\nExecStart=vllm serve\n"), (2, f"[Service]\nExecStart=/bin/sh -c '{RUN}'\n"),
        (3, "[Service]\nUser=x\nExecStart=llama-server -m $M\n"), (2, f"[Service]\nEnvironmentFile=/no/env\nExecStart={RUN}\n"),
        (2, "[Service]\nExecStart=llama-server -m /m/%i.gguf\n"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(("form", "line", "text"), [(form, *case) for form, cases in NOT_PLAIN.items() for case in cases])
def test_what_only_a_run_can_tell_is_a_sentence_with_its_line_and_no_guess(form: str, line: int, text: str) -> None:
    with pytest.raises(SpectuiError) as error:
        FORMATS[form].read(text, None)
    assert re.fullmatch(rf"Line {line} [^\n]*: {re.escape(RUN_IT)}\.", str(error.value))


@pytest.mark.parametrize(
    ("form", "text", "sentence"),
    [
        ("llama-server", f"{RUN}\n{RUN} -c 5\n", "Lines 1 and 2 start llama.cpp: leave one command in the file."),
        ("llama-server", "A=xx\n" + "A=$A$A$A$A\n" * 30 + f"{RUN} -c $A", "Line 9 sets A where only a run can tell"),
        ("llama-server", "", "There is no llama-server command in it"),
        ("llama-server", f"tmux new '{RUN}'", "There is no llama-server command in it"),
        ("llama-server", "docker exec box llama-server -m /m/a.gguf", "There is no llama-server command in it"),
        ("llama-server", 'main "$@"', "There is no llama-server command in it"),
        ("llama-server", 'llama-server -m "$(dirname "$0")/a.gguf"', "Pasted text has no directory"),
        ("powershell", "Start-Process llama-server -ArgumentList '-m a'", "There is no llama-server command in it"),
        ("llama-server", "docker run llama.cpp -m /m/a.gguf", "its -m /m/a.gguf is a path in a container, and no volume"),
        ("systemd", "[Unit]\nA=b\n", "There is no [Service] with one ExecStart= in it"),
        ("compose", "services: {}\n", "There are no services in it"),
        ("compose", "services: {a: {image: redis}}", "No service in it can be imported; of a: it starts 'redis'"),
        (
            "compose",
            "services: {a: {extends: b, image: llama.cpp}}",
            "No service in it can be imported; of a: it needs other files",
        ),
    ],
)
def test_what_is_no_script_gets_one_sentence(form: str, text: str, sentence: str) -> None:
    with pytest.raises(SpectuiError) as error:
        FORMATS[form].read(text, None)
    assert str(error.value).startswith(sentence) and "\n" not in str(error.value)


def test_other_commands_words_are_not_printed_and_what_has_no_use_stays_as_it_is_written() -> None:
    text = "curl -H 'Authorization: Bearer geheim'\nAPI=geheim\nexport LLAMA_KEY=geheim\nexport CUDA_VISIBLE_DEVICES=0\n"
    text += f"sudo {RUN} --port $X"
    assert left_out(FORMATS["llama-server"].read(text, None)) == {
        STARTED_BY: ["sudo"], ENVIRONMENT: ["CUDA_VISIBLE_DEVICES=0"], NOT_USED: ["--port $X"],
    }  # fmt: skip


@pytest.mark.parametrize(
    "line",
    [
        "docker run --rm -it -p8080:8080 -v /srv:/models ghcr.io/ggml-org/llama.cpp:server -m /models/a.gguf -c 5",
        "sudo -E podman container run --mount type=bind,src=/srv,dst=/m -w /m -e LLAMA_ARG_CTX_SIZE=5 llama.cpp -m a.gguf",
        "docker run -v /other:/m -v /srv:/m/x llama.cpp -m /m/x/a.gguf -c 5",
        "nice -n 5 docker run -v /srv:/m --entrypoint /app/llama-server mine:latest -m /m/a.gguf -c 5",
        "cd /\ndocker run -v ./srv:/m llama.cpp:full --server -m /m/a.gguf -c 5",
    ],
)
def test_a_containers_paths_become_the_machines(line: str) -> None:
    (profile,) = FORMATS["llama-server"].read(line, None).profiles
    assert profile.settings == {"model": "/srv/a.gguf", "ctx_size": 5}


UNIT = """\
[Unit]
After=network-online.target
[Service]
User=llama
WorkingDirectory=/opt/llama.cpp
Environment="CUDA_VISIBLE_DEVICES=0" LLAMA_ARG_CTX_SIZE=8192
Environment='MODELS=/srv/my models' "MORE=-ngl 99"
Environment=N=3 HERE=%h
ExecStart=old
ExecStart=
ExecStart=/opt/llama.cpp/build/bin/llama-server \\
    --model "${MODELS}/a.gguf" -t ${N} \\
    # --port 8081 \\
    $MORE --alias coder \\
    --port ${PORT}
[Install]
WantedBy=multi-user.target
"""


def test_a_unit_of_systemd() -> None:
    assert detect(UNIT, "-") == detect("", "a.service") == "systemd"
    source = FORMATS["systemd"].read(UNIT, None)
    (profile,) = source.profiles
    assert profile.settings == {"model": "/srv/my models/a.gguf", "ctx_size": 8192, "gpu_layers": 99, "threads": 3}
    assert profile.name == "coder"
    assert left_out(source) == {ENVIRONMENT: ["CUDA_VISIBLE_DEVICES=0"], NOT_USED: ["--port ${PORT}"]}


COMPOSE = """\
services:
  coder:
    image: ghcr.io/ggml-org/llama.cpp:server-cuda
    restart: unless-stopped
    volumes: ["./models:/models:ro", {type: bind, source: /srv/drafts, target: /drafts}]
    environment: [CUDA_VISIBLE_DEVICES=0, LLAMA_ARG_N_GPU_LAYERS=99]
    command: >
      -m /models/${SPECTUI_MODEL:-a}.gguf
      --ctx-size 8192 -md /drafts/b.gguf --spec-type draft-simple
  chat:
    build: .
    volumes: ["~/m:/m"]
    entrypoint: ["/app/llama-server"]
    command: ["-m", "/m/b.gguf", "--temp", "0.5"]
  lost:
    image: llama.cpp
    command: -m /elsewhere/c.gguf
  open:
    image: llama.cpp
    command:
      -t ${SPECTUI_THREADS} -m /m/c.gguf
  webui:
    image: ghcr.io/open-webui/open-webui:main
"""


def test_services_of_compose(tmp_path: Path) -> None:
    source = FORMATS["compose"].read(COMPOSE, tmp_path / "compose.yml")
    assert {profile.name: profile.settings for profile in source.profiles} == {
        "coder": {"model": f"{tmp_path}/models/a.gguf", "draft": "/srv/drafts/b.gguf", "ctx_size": 8192, "gpu_layers": 99,
                  "drafter": "model"},
        "chat": {"model": os.path.expanduser("~/m/b.gguf"), "temperature": 0.5},
    }  # fmt: skip
    assert source.refused == {
        "lost": "its -m /elsewhere/c.gguf is a path in a container, and no volume of it holds that.",
        "open": f"Line 21 has ${{SPECTUI_THREADS}}, which only a run can tell: {RUN_IT}.",
        "webui": "it starts 'ghcr.io/open-webui/open-webui:main', which is no program of llama.cpp.",
    }
    (tmp_path / ".env").write_text("SPECTUI_MODEL=q\n")
    assert "coder" in FORMATS["compose"].read(COMPOSE, tmp_path / "compose.yml").refused, "the file may set its model"
