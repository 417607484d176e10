"""Shell scripts beside bash, which runs them with a llama-server that prints what it is given."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from spectui.errors import SpectuiError
from spectui.profiles import llama_server
from spectui.profiles.imported import NO_FLAG, NOT_KNOWN, STARTED_BY
from spectui.profiles.scripts import shell
from spectui.profiles.scripts.started import EDGE

RUN = "llama-server -m /m/a.gguf"


@pytest.fixture
def bash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a llama-server that writes its arguments, one a line, into a file beside it."""
    if shutil.which("bash") is None:
        pytest.skip("there is no bash")
    for name in [name for name in os.environ if name not in ("HOME", "PATH")]:
        monkeypatch.delenv(name)
    server = tmp_path / "llama-server"
    server.write_text(f'#!/bin/bash\nprintf "%s\\n" "$@" > {tmp_path}/given\n')
    server.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "text",
    [
        'A="-m /m/a.gguf"; A="${A} ${EXTRA:-}"\nllama-server ${A} -c 5',
        'A=-m B=/m/a.gguf\nC="$A $B"; D="${A} ${B}  $(echo -c) $((2 + 3))"\nllama-server $D',
        f'C=5\n{RUN} ${{C:+-c "$C"}} ${{D:+-md "$D"}} ${{E:- -ngl 9}}',
        f'A=(-c 5)\n{RUN} "${{A[@]+"${{A[@]}}"}}" ${{B[@]+"${{B[@]}}"}}',
        f'A=()\n{RUN} "${{A[@]}}" -c 5',
        f"A=()\nA[${{#A[@]}}]=-c\nA[${{#A[@]}}]=5\nA[1]+=5\n{RUN} ${{A[@]}}",
        f'declare -A M=([q]="-c 5" [l]=x)\nM[n]=9\nW=${{1:-q}}\n{RUN} ${{M[$W]}} -ngl "${{M[n]}}"',
        f'f() {{ local m=$1; {RUN} -a $m "${{@:2}}" ${{m:1}} ${{m:0:1}}; }}\nf abc -c 5',
        f"f() {{ local C=6; }}\nC=5\nf\n{RUN} -c $C",
        f'main() {{ parse "$@"; {RUN} -c ${{C:-5}}; }}\nparse() {{\n'
        "while [[ $# -gt 0 ]]; do case $1 in -c) C=$2; esac; shift; done; }\n"
        'main "$@"',
        f"set -- -c 5\nwhile [ $# -gt 0 ]; do A+=(\"$1\"); shift; done\n{RUN} ${{A[@]}} $#",
        f"while getopts m:c: o; do case $o in c) C=$OPTARG; esac; done\n{RUN} -c ${{C:-5}}",
        f"[ 1 = 1 ] && C=5 || C=6\n{RUN} -c $C",
        f"[ 1 = 2 ] && C=6 D=7\n{RUN} -c ${{C:-5}}",
        f"eval C=5\n{RUN} -c $C",
        f"read -r -d '' A <<'E' || true\n-c 5\n-ngl 9\nE\n{RUN} $A",
        f"mapfile -t A <<'E'\n-c\n5\nE\n{RUN} ${{A[@]}}",
        f"A=$(cat <<'E'\n-c 5\n-ngl 9\nE\n)\n{RUN} $A",
        f"{RUN} $(echo -c 5)",
        'llama-server -m /m/a\\\n.gguf -c 40\\\n96 -a "x\\\ny" \\\n-ngl \'9\'\\\n9',
        f"C=4 C0=7\n# it's {RUN} \\\n{RUN} -c $C\\\n0 -ngl ${{C}}\\\n0",
        f"cat <<'E' >/dev/null\na\\\nE\n{RUN} -a it\\'s\\\nb&\\\n# no more\nwait",
        f"{RUN} `# the model` -c 5 `# and its context`",
        f"exec {RUN} -c 5\n{RUN} -c 6",
        f"[ 1 = 2 ] && exec {RUN} -c 6\n{RUN} -c 5",
        f"C=5\nuntil [ 1 = 1 ]; do C=6; done\n{RUN} -c $C",
        f"declare -i C=5\n{RUN} -c $C",
        f'C=6\nunset "C"\n{RUN} -c ${{C:-5}}',
        'IFS=,\nA="-m,/m/a.gguf,-c,5"\nllama-server $A',
        "IFS=$'\\n'\nA=$'-m\\n/m/a b.gguf'\nllama-server $A",
        'OLD=$IFS\nIFS=:\nA="a::b:"\nllama-server -m /m/a.gguf $A\nIFS=$OLD\nB="c d"',
        f'A=(1 2)\nIFS=,\n{RUN} -ts "${{A[*]}}" ${{A[@]}}',
        "A=([2]=-c [3]=5 [0]=-m [1]=/m/a.gguf)\nllama-server \"${A[@]}\"",
        f"C=2+3\n{RUN} -c $((C * 2)) $(($C * 2)) $((-7 / 2)) $((-7 % 3)) $((1 << 10))",
        f"C=4k\n{RUN} -c $((10#5 + 1))",
        f"A=$'x\\x41\\101\\'\\\\'\n{RUN} -a $A",
        f"M=/m/a.gguf\n{RUN} -a ${{M//\\//_}} -n ${{M/\\/m/x}}",
        f"set -- a b c\nshift 2\n{RUN} $1 $#",
        f"for m in a b c; do [ $m = b ] && break; done\n{RUN} -a $m",
        "for m in a b; do [ $m = a ] && continue; llama-server -m $m; done",
        "f() { command llama-server \"$@\"; }\nf -m /m/a.gguf",
        f"command -v llama-server > /dev/null || exit\n{RUN} -c 5",
        f"if ! {RUN} -c 5; then echo no; fi",
        f"f() {{ {RUN} -c $C -a \"$D\"; }}\nC=5\nC=6 D='x y' f\nE=$C$D",
        f"f() {{ :; }}\nC=5\nC=6 D=7 f\n{RUN} -c $C${{D:-}}",
        f"C=5\nexport C=6 D=$C\nf() {{ local C=7 E=$C; {RUN} -c $D -a $E; }}\nf",
        f"C=5\nC=6 eval '{RUN} -c $C'",
        f"C=5; printf -v D %s C\n{RUN} -c $C",
        f"N=D C=5\nexport \"C=6\" $N=7; X=1 export E=8; \\export F=9\n{RUN} -c $C -a $D$E$F",
        f"f() {{ local 'C=6'; A=1 declare D=7; }}\nC=5 D=5\nf\n{RUN} -c $C -a $D",
        "bash -c 'llama-server -m ${A:-/m/b.gguf}'",
        "A=/m/a.gguf\nbash -c 'llama-server -m ${A:-/m/b.gguf}'",
        "A=/m/a.gguf bash -c 'llama-server -m $A'",
        f"exec {{fd}}> log\n{RUN} -c 5",
        "S=./no/llama-server\n[ -x $S ] || S=llama-server\n$S -m /m/a.gguf",
        "S=$(command -v llama-server || echo ./llama-server)\n\"$S\" -m /m/a.gguf",
        "M=a:~/b\nN=~/c:~/d\nllama-server -m $M -md $N -a x=~/y -a a~ -a \"$N\"~",
        "A=' x y '\nllama-server -m pre${A}post pre$A\"post\" \"pre\"$A'post'",
        f"{RUN} -a \"${{A:-'x y'}}\" -a ${{A:-'x y'}}",
        "shopt -s expand_aliases\nalias one='two -c 5'\nalias two='llama-server -m /m/a.gguf'\none -ngl '9 9'",
        f"shopt -s expand_aliases\nalias llama-server='llama-server -c 5'\n{RUN}",
        f"for a in 1 2; do for b in 3 4; do {RUN} -c $a$b; break 2; done; done",
        f"for a in 1 2; do for b in 3 4; do continue 2; done; C=9; done\n{RUN} -c ${{C:-5}} -a $a$b",
        f"case abc in a*) C=5;& b) D=6;; *) C=7;; esac\n{RUN} -c $C$D",
        f"case abc in a*) C=5;;& *c) D=6;; esac\n{RUN} -c $C$D",
        f"A=\"$(echo -c; echo 5)\"\n{RUN} $A",
        "mkdir -p m; touch m/a.gguf\ncd m\nllama-server -m *.gguf -a ./a*",
        f"mkdir -p m\npushd m > /dev/null; popd > /dev/null; cd m; cd - > /dev/null\n{RUN} -a $PWD",
        f"set -- -c 5\n{RUN} ${{@:2}} ${{*:1:1}}",
        f"L=; set -- a b; for x; do L=$L$x; done\n{RUN} -a $L",
        f"[[ a == 'a*' ]] && C=5\n[ a = 'a*' ] && C=6\n[[ a == a* ]] && D=7\n{RUN} -c ${{C:-8}}$D",
        f"case x in '*') C=5;; x) C=6;; esac\n{RUN} -c $C",
        f"C=4; echo | C=5; {{ C=6; }} | cat; {{ C=7; }} & wait\n{RUN} -c $C",
        f"f() {{ C=5; }}; C=4; f | cat\n{RUN} -c $C",
        f"f() {{ exit 0; }}\n{RUN} -c 5; f; {RUN} -c 6",
        f"eval 'f() {{ {RUN} -a \"$1\"; }}'\n: some more text behind it\nf 'x y'",
        f"timeout -s KILL 9 {RUN} -c 5",
        "M=/m; N=a\nllama-server -m $M/$N.gguf -md ${M}/$N-b/$N.gguf --x=$M/$N,$N '$M/$N.g' \\$M/\\$N.g a$ \"$M/$N.g\"$N.g",
        "M=/m; N=a\nV=$M/$N.gguf A=($M/$N.b $M-$N-c)\nfor i in $M/$N.d; do llama-server -m $V ${A[@]} $i ${Z:-$M/$N.e}; done",
        "M=/m/k\nllama-server 'x y'\\$M `echo x`y`echo z` $M\\ b \"a b\"\\ c \\ d ${M%/*}\\ \"e f\" ~$M ~/x 5$M\\  z",
        "M=/m/k\nA=('x y'\\$M `echo x`\"$M\" g\\ h)\nfor i in $M\\ b `echo x`y; do A+=(\"$i\"); done\nllama-server \"${A[@]}\"",
        "A=x; N=a\nbash <<E\nN=b\nllama-server -m /m/\\$N.gguf -md \"/m/$N\" \\\\\n -a `echo $A` \\`echo 2\\`\nE",
        "A=$(cat <<-E\nc \"5\" $(basename \"/m/x\")\n\t\\\\x\nE\n)\nB=$(cat <<'E'\n\\$A\nE\n)\nllama-server $A \"$B\"",
        f"F=/m/x.Q4.gguf\n{RUN} -a $(basename $F .gguf) -c $(( ${{K:-4}} * 1024 )) -b $((${{K:-2}}/${{L:-1}}))",
        f"llama-server --version > /dev/null\n{RUN} -c 5",
        f"tar --version llama-server > /dev/null\n{RUN} -c 5",
        f"sh -c 'true \"llama-server is ready\"'; log() {{ :; }}; log 'llama-server is not ready'\n{RUN} -c 5",
    ],
)  # fmt: skip
def test_what_is_read_is_what_bash_gives(bash: Path, text: str) -> None:
    (bash / "serve.sh").write_text(text)
    subprocess.run(["bash", bash / "serve.sh"], cwd=bash, check=True, capture_output=True, timeout=60)
    (started,) = shell.read(text, bash / "serve.sh").started
    assert started.arguments == (bash / "given").read_text().splitlines()


@pytest.mark.parametrize(
    "text",
    [
        f"C=5\nread -p 'context? ' C\n{RUN} -c $C",
        f"C=5\nnvidia-smi && C=6\n{RUN} -c $C",
        f"C=5\n(( C = 6 ))\n{RUN} -c $C",
        f"C=5\nlet C=6\n{RUN} -c $C",
        f"C=5\nlet 'D = 1' C++\n{RUN} -c $C",
        f"C=5\n(( ++C ))\n{RUN} -c $C",
        f"C=5\n(( C <<= 1 ))\n{RUN} -c $C",
        f"C=5\nprintf -v C 6\n{RUN} -c $C",
        f"C=5\nfor f in /x/$UNSET; do C+=1; done\n{RUN} -c $C",
        f"A=(5)\nnvidia-smi && A+=(6)\n{RUN} -c ${{#A[@]}}",
        f"C=$UNSET\n[ -z \"$C\" ] || D=5\n{RUN} -c \"$D\"",
        f"{RUN} -c {{5,6}}",
        f"{RUN} -c $((16#ff))",
        f"C=5\nnvidia-smi && {{ C=6; }}\n{RUN} -c $C",
        f"C=5\nuse() {{ C=6; }}\ngrep -q avx2 /proc/cpuinfo && use\n{RUN} -c $C",
        f"C=5\nnvidia-smi && if true; then C=6; fi\n{RUN} -c $C",
        f"f() {{ {RUN} -c $#; }}\nf $UNSET",
        f"C=0; until [ $C -ge 3 ]; do C=$((C+1)); done\n{RUN} -c $C",
        f"declare -i C=2+3\n{RUN} -c $C",
        f"declare -i C=5\nC+=2\n{RUN} -c $C",
        f"typeset -i C\nC=2+3\n{RUN} -c $C",
        f"declare -n C=UNSET\n{RUN} -c $C",
        f"C=(4 5)\nunset 'C[0]'\n{RUN} -c ${{C[1]}}",
        f"C=([1]=4 5)\n{RUN} -c ${{C[1]}}",
        f"C=~0\n{RUN} -c $C",
        f"C=010\n{RUN} -c $((10#$C))",
        f"C=4\n: $((C += 1))\n{RUN} -c $C",
        f"select C in 4 5; do break; done\n{RUN} -c $C",
        f"C=4\nwhile nvidia-smi; do C=$((C + 1)); {RUN} -c $C; break; done",
        f"f() {{ local -n A=$1; A+=(5); }}\nC=(4)\nf C\n{RUN} -c ${{C[1]}}",
    ],
)  # fmt: skip
def test_no_value_is_made_up(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("UNSET", "C", "D"):
        monkeypatch.delenv(name, raising=False)
    (started,) = shell.read(text).started
    assert EDGE in started.arguments[3]
    (profile,) = llama_server.read(text).profiles
    assert profile.settings == {"model": "/m/a.gguf"}
    assert [each.reason for each in profile.left_out] == [NOT_KNOWN]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("read -r A < flags\nllama-server $A", "$A may name the model, and only a run can tell it: write the flags there."),
        ("echo -m /m/a.gguf | xargs llama-server", "xargs may name the model, and only a run can tell it"),
        ("M=/m/a.gguf\nbash -c 'llama-server -m $M'", "-m is $M, which only a run can tell"),
        ("llama-server -m /m/{a,b}.gguf", "-m is /m/{a,b}.gguf, which only a run can tell: write the file's path there."),
        ("llama-server -m /m/my model.gguf", "model.gguf belongs to no flag: put quotes around paths with blanks."),
        ("llama-server \u2013m /m/a.gguf", "\u2013m begins with a sign of printed text: write a plain - or plain quotes"),
        ("llama-server -m \u201c/m/a.gguf\u201d", "begins with a sign of printed text"),
        ("#!/usr/bin/env python3\nrun(['llama-server'])", "It is a script for python3: give the command that it starts."),
    ],
)  # fmt: skip
def test_no_profile_is_made_of_half_a_command(text: str, sentence: str) -> None:
    with pytest.raises(SpectuiError) as error:
        llama_server.read(text)
    assert sentence in str(error.value)
    assert error.value.exit_code == 1


def test_a_script_that_is_read_into_another(bash: Path) -> None:
    (bash / "conf").mkdir()
    (bash / "conf/common.sh").write_text(
        '# one\nHERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)\n'
        'run() { llama-server -m "$HERE/a.gguf" "$@"; }\nreturn\nX=9\n'
    )
    (bash / "conf/.env").write_text("# two\nLLAMA_ARG_TOP_K=7\nCTX=5\n")
    text = 'X=1\n[ -f conf/.env ] && source conf/.env\n. ./conf/common.sh\nrun -c "$CTX" -ngl $X'
    (bash / "serve.sh").write_text(text)
    subprocess.run(["bash", bash / "serve.sh"], cwd=bash, check=True, capture_output=True, timeout=60)
    (started,) = shell.read(f"cd {bash}\n{text}", bash / "serve.sh").started
    assert started.arguments == (bash / "given").read_text().splitlines()
    script = shell.read("source nowhere.sh\n" + RUN)
    assert script.others == ["source nowhere.sh"]


def test_lines_as_a_page_prints_them() -> None:
    for text in (f"$ {RUN} -c 5", f"```bash\n{RUN} -c 5\n```"):
        (profile,) = llama_server.read(text).profiles
        assert profile.settings == {"model": "/m/a.gguf", "ctx_size": 5}
        assert NO_FLAG not in [each.reason for each in profile.left_out]


def test_a_program_that_only_a_run_can_tell_is_named() -> None:
    (profile,) = llama_server.read('"$SERVER" -m /m/a.gguf').profiles
    assert profile.settings == {"model": "/m/a.gguf"}
    assert (STARTED_BY, "$SERVER") in profile.left_out
