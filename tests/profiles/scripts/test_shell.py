"""Shell scripts as people write them: what is started, and what only a run can tell."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from spectui.errors import SpectuiError
from spectui.profiles import llama_server
from spectui.profiles.imported import ENVIRONMENT, NOT_KNOWN, NOT_USED, STARTED_BY
from spectui.profiles.llama_server import OTHER_LINES, SHELL

RUN = "llama-server -m /m/a.gguf"
HOME = os.path.expanduser("~")


def settings(text: str, file: Path | None = None) -> dict[str, object]:
    (profile,) = llama_server.read(text, file).profiles
    return dict(profile.settings)


def listed(text: str) -> dict[str, list[str]]:
    """What is left out, by reason."""
    found = llama_server.read(text)
    reasons: dict[str, list[str]] = {}
    for reason, what in (*found.profiles[0].left_out, *found.left_out):
        reasons.setdefault(reason, []).append(what)
    return reasons


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{RUN} -t $(nproc) -c 5", {"ctx_size": 5}),
        (f"{RUN} -t `nproc` -c 5", {"ctx_size": 5}),
        ("llama-server -m ${1:-/m/a.gguf} -c ${CTX:-4096} -ngl \"${N:-99}\"", {"ctx_size": 4096, "gpu_layers": 99}),
        ("CTX=5\nllama-server -m ${M:-\"/m/a.gguf\"} -c ${CTX:-4096}", {"ctx_size": 5}),
        (f"# a comment that ends in \\\n{RUN} -c 5 # \\\n", {"ctx_size": 5}),
        (f"{RUN} -c 5 \\\n  # -c 6 \\\n  -ngl 9", {"ctx_size": 5, "gpu_layers": 9}),
        (f"{RUN} -fa 2>&1", {"flash_attn": "on"}),
        (f"{RUN} -fa > log -c 5 2>&1 &", {"flash_attn": "on", "ctx_size": 5}),
        (f"{RUN} -c $((4 * 1024)) --top-k $(( 2 + K )) ", {"ctx_size": 4096}),
        ("A=1 M='/m/a.gguf'\nexport C=5\nllama-server -m $M -c $C", {"ctx_size": 5}),
        ("ARGS=( -m \"/m/a.gguf\" # why\n -ngl 9 )\nARGS+=(-c 5)\nllama-server \"${ARGS[@]}\"",
         {"ctx_size": 5, "gpu_layers": 9}),
        ("A=\"-m /m/a.gguf\"\nA=\"$A -c 5\"\nA+=' -ngl 9'\nexec llama-server $A", {"ctx_size": 5, "gpu_layers": 9}),
        ("bash -c \"llama-server -m '/m/a.gguf' -c 5\"", {"ctx_size": 5}),
        ("M=/m/a.gguf\nnohup sh -lc \"exec llama-server -m $M -c 5\" &", {"ctx_size": 5}),
        ("ssh gpu 'cd /m; ./llama-server -m a.gguf -c 5'", {"ctx_size": 5}),
        ("bash <<EOF\ncd /m\nllama-server -m a.gguf -c 5\nEOF\n", {"ctx_size": 5}),
        ("bash <<'EOF'\nM=/m/a.gguf\nllama-server -m $M -c 5\nEOF", {"ctx_size": 5}),
        ("cd /m && ./llama-server -m a.gguf", {}),
        ("pushd /opt\n(cd /x)\ncd ../m || exit 1\n./llama-server -m ./a.gguf", {"model": "/opt/../m/a.gguf"}),
        ("LLAMA_ARG_CTX_SIZE=5 env LLAMA_ARG_N_GPU_LAYERS=9 " + RUN, {"ctx_size": 5, "gpu_layers": 9}),
        ("export LLAMA_ARG_MODEL=/m/a.gguf LLAMA_ARG_CTX_SIZE=5\nexec llama-server", {"ctx_size": 5}),
        ("set -a\nLLAMA_ARG_CTX_SIZE=5\nset +a\n" + RUN, {"ctx_size": 5}),
        (f"sudo -u llama -- numactl -N 0 -m 0 {RUN} -c 5", {"ctx_size": 5}),
        (f"tmux new -d -s llama-server '{RUN} -c 5'", {"ctx_size": 5}),
        (f"if [ -f /x ]; then\n  echo no\n  exit 1\nfi\n{RUN} -c 5", {"ctx_size": 5}),
        (f"if [ $# -lt 1 ]; then echo usage; exit 1; fi\n{RUN} -c 5", {"ctx_size": 5}),
        (f"if ! command -v llama-server > /dev/null; then exit 1; fi\nif true; then {RUN} -c 5; fi", {"ctx_size": 5}),
        ("if [ -z \"$M\" ]; then M=/m/a.gguf; else M=/m/b.gguf; fi\nllama-server -m $M", {}),
        ("case \"${1:-a}\" in b) M=/b ;; a|c) M=/m/a.gguf;; *) M=/x;; esac\nllama-server -m $M", {}),
        ("serve() {\n local m=$1; shift\n llama-server -m /m/$m.gguf \"$@\"\n}\nserve a -c 5", {"ctx_size": 5}),
        ("function a { llama-server -m /m/a.gguf -c 5; }", {"ctx_size": 5}),
        ("alias a='llama-server -m /m/a.gguf -c 5'", {"ctx_size": 5}),
        (f"while true; do {RUN} -c 5; sleep 1; done", {"ctx_size": 5}),
        ("C=5\nwhile [ $# -gt 0 ]; do case $1 in -c) C=$2;; esac; shift; done\n" + RUN + " -c $C", {"ctx_size": 5}),
        (f"A=(-c 5)\nif which llama-server; then {RUN} \"${{A[@]}}\"; else /app/{RUN} \"${{A[@]}}\"; fi", {"ctx_size": 5}),
        ("set -- -m /m/a.gguf -c 5\nexec llama-server \"$@\"", {"ctx_size": 5}),
        (f"until {RUN} -c 5; do sleep 1; done", {"ctx_size": 5}),
        ("for m in a; do llama-server -m /m/$m.gguf; done", {}),
        ("M=/x/a.gguf.bak\nN=${M##*/}\nllama-server -m /m/${N%.bak} -c 5", {"ctx_size": 5}),
        (f"{RUN} -c 5 --temp \\\n 0 \\\n", {"ctx_size": 5, "temperature": 0.0}),
        ("llama serve -m /m/a.gguf -c 5", {"ctx_size": 5}),
        (f"eval \"{RUN} -c 5\"", {"ctx_size": 5}),
        (f"mkdir -p llama.cpp; git clone x llama.cpp -b y\npkill -f llama-server\necho {RUN}\n{RUN} -c 5", {"ctx_size": 5}),
    ],
)  # fmt: skip
def test_scripts_as_people_write_them(text: str, expected: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CTX", "M", "N", "K"):
        monkeypatch.delenv(name, raising=False)
    assert settings(text) == {"model": "/m/a.gguf", **expected}


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        ("-t $(nproc) -c $CTX --port $PORT", ["-t $(nproc)", "-c $CTX"]),
        ('"$@"', ["$@"]),
        ("-fa $@ -c 5", ["$@"]),
        ("$(cat flags)", ["$(cat flags)"]),
        ("$EXTRA -c 5", ["$EXTRA"]),
        ('-c "${CTX}"', ["-c ${CTX}"]),
        ('"${ARGS[@]}"', ["${ARGS[@]}"]),
        ("--temp 0.${T}", ["--temp 0.${T}"]),
    ],
)
def test_what_only_a_run_can_tell_is_listed(text: str, unknown: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CTX", "PORT", "EXTRA", "ARGS", "T"):
        monkeypatch.delenv(name, raising=False)
    assert listed(f"{RUN} {text}")[NOT_KNOWN] == unknown


def test_a_condition_that_only_a_run_can_tell_adds_what_is_unknown() -> None:
    text = f'A=(-ngl 9)\nif nvidia-smi; then A+=(-c 5); B=1; else B=2; fi\n{RUN} "${{A[@]}}" --top-k $B'
    assert settings(text) == {"model": "/m/a.gguf", "gpu_layers": 9}
    assert listed(text)[NOT_KNOWN] == ["-c 5", "--top-k $B"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("llama-server -m '/m/a.gguf", "A line is cut off, or quotes or brackets are not closed (line 1): give"),
        (f"X=1\n{RUN} -c $(nproc", "A line is cut off"),
        (f"{RUN} \\", "A line is cut off"),
        (f"if true; then\n{RUN}\n", "A line is cut off"),
        ("llama-server -m $NOWHERE/a.gguf", "-m is $NOWHERE/a.gguf, which only a run can tell: write the file's path there."),
        ("M=${1:-}\nllama-server -m \"$M\"", "-m is empty: write the file's path there."),
        ("llama-server -m /nowhere/*.gguf", "-m is /nowhere/*.gguf, which only a run can tell"),
        (f"{RUN} -md \"$1\"", "-md is $1, which only a run can tell"),
        ("cd $(mktemp -d)\nllama-server -m a.gguf", "-m a.gguf starts at a directory that only a run can tell"),
        (f"bash -c \"{RUN} 'x\"", "is no whole script: its quotes or brackets are not closed."),
        ("A=xxxxxxxx\n" + "A=$A$A$A$A\n" * 20, "Its variables grow without end."),
        ("".join(f"f{n}() {{ f{n + 1}; f{n + 1}; }}\n" for n in range(20)) + "f0", "Its functions call one another"),
        ("f() { f; }\nf\n" + RUN, "Its commands are nested too deeply."),
    ],
)  # fmt: skip
def test_half_a_line_is_no_profile(text: str, sentence: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOWHERE", raising=False)
    with pytest.raises(SpectuiError) as error:
        llama_server.read(text)
    assert sentence in str(error.value) and "\n" not in str(error.value)
    assert error.value.exit_code == 1


def test_the_scripts_own_directory(tmp_path: Path) -> None:
    for written in (
        'cd "$(dirname "$0")"\n./llama-server -m a.gguf',
        'cd "$(dirname "${BASH_SOURCE[0]}")" || exit\n./llama-server -m a.gguf',
        'D="$( cd -- "$( dirname -- "${BASH_SOURCE[0]:-$0}" )" &> /dev/null && pwd )"\nllama-server -m "$D/a.gguf"',
        'llama-server -m "$(dirname "$(realpath "$0")")/a.gguf"',
    ):
        assert settings(written, tmp_path / "serve.sh") == {"model": str(tmp_path / "a.gguf")}
        with pytest.raises(SpectuiError):
            settings(written)


def test_what_starts_it_and_what_the_shell_does_is_listed() -> None:
    reasons = listed(
        f"export CUDA_VISIBLE_DEVICES=0\nsource env.sh\nHF_TOKEN=geheim nohup numactl -N 0 {RUN} --port 80 >> log 2>&1 &\n"
        "echo started\ncurl localhost"
    )
    assert reasons == {
        STARTED_BY: ["nohup numactl -N 0"], ENVIRONMENT: ["CUDA_VISIBLE_DEVICES=0", "HF_TOKEN=…"], NOT_USED: ["--port 80"],
        OTHER_LINES: ["source env.sh", "curl localhost"], SHELL: [">> log 2>&1 &"],
    }  # fmt: skip
    assert listed(f"{RUN} 2>&1 | tee log")[SHELL] == ["2>&1 | tee log"]


def test_home_and_files_of_this_machine(tmp_path: Path) -> None:
    (tmp_path / "only one.gguf").touch()
    assert settings("llama-server -m ~/a.gguf -md $HOME/b.gguf")["draft"] == f"{HOME}/b.gguf"
    assert settings(f"llama-server -m {tmp_path}/only*.gguf") == {"model": str(tmp_path / "only one.gguf")}
    assert settings(RUN + " -ot .ffn_.*_exps.=CPU -c 5")["ctx_size"] == 5


@hypothesis_settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            ["llama-server", " -m /x ", "$A", '"$@"', "${A:-b}", "$(", ")", "`", "'", '"', "\\", "\n", "if ", "; then ", "fi",
             "{", "}", "A=(", "A+=", "f() ", "case x in", "esac", "a) ", ";;", "for i in ", "; do ", "done", "&&", "||", "|",
             "&", "<<E", "\nE\n", "#", "((", "))", "[[ ", " ]]", "!", "cd ", "ü", "\r\n", "export ", "while ", "${A[@]}",
             "${#A}", "${A%x}"]
        ),
        max_size=24,
    ).map("".join)
)  # fmt: skip
def test_any_text_is_a_profile_or_one_sentence(text: str) -> None:
    with suppress(SpectuiError):
        llama_server.read(text)
