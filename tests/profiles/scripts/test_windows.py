"""Batch files and scripts of PowerShell as people write them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from spectui.errors import SpectuiError
from spectui.profiles.formats import FORMATS, detect
from spectui.profiles.imported import ENVIRONMENT, NOT_KNOWN, NOT_USED
from spectui.profiles.llama_server import OTHER_LINES, SHELL, profile_of
from spectui.profiles.scripts import batch, powershell
from spectui.profiles.scripts.started import split_windows

MODEL = r"C:\m\a.gguf"
RUN = f"llama-server.exe -m {MODEL}"


def read(form: str, text: str, file: Path | None = None) -> tuple[dict[str, object], dict[str, list[str]]]:
    """(settings, what is left out by reason)."""
    found = FORMATS[form].read(text, file)
    reasons: dict[str, list[str]] = {}
    for reason, what in (*found.profiles[0].left_out, *found.left_out):
        reasons.setdefault(reason, []).append(what)
    return dict(found.profiles[0].settings), reasons


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (RUN + " -c 5", {"ctx_size": 5}),
        (r"llama-server -m \\nas\m\a.gguf -c 5", {"model": r"\\nas\m\a.gguf", "ctx_size": 5}),
        (f"@echo off\r\nREM my server ^\r\n{RUN} ^\r\n  -c 5 ^\r\n  -ngl 99\r\npause\r\n", {"ctx_size": 5, "gpu_layers": 99}),
        (f"{RUN} ^\n  REM -c 9 ^\n  -c 5", {"ctx_size": 5}),
        (f"{RUN}^\n -c 5", {"ctx_size": 5}),
        ("set M=C:\\m\\a.gguf\nset \"C=5\"\nllama-server -m %M% -c %c%", {"ctx_size": 5}),
        ("set DIR=C:\\m\nset M=%DIR%\\a.gguf\nstart \"\" /B \"C:\\l l\\llama-server.exe\" -m \"%M%\" -c 5", {"ctx_size": 5}),
        ("start \"Llama server\" /MIN /D C:\\m llama-server.exe -m a.gguf -c 5", {"ctx_size": 5}),
        (f"cmd /k \"{RUN} -c 5\"", {"ctx_size": 5}),
        (f"call {RUN} -c 5", {"ctx_size": 5}),
        ("cd /d C:\\m\nllama-server.exe -m a.gguf -c 5 > log.txt 2>&1", {"ctx_size": 5}),
        (f"set LLAMA_ARG_CTX_SIZE=5\n{RUN}", {"ctx_size": 5}),
        (f"if not exist \"C:\\x y\" (\n  echo no (really)\n  exit /b 1\n)\n{RUN} -c 5", {"ctx_size": 5}),
        (f"if not defined C set C=5\nif \"%D%\"==\"\" (set D=9) else set D=8\n{RUN} -c %C% -ngl %D%",
         {"ctx_size": 5, "gpu_layers": 9}),
        (f"setlocal enabledelayedexpansion\nset C=5\n:again\n{RUN} -c !C!\ntimeout /t 5 & goto again", {"ctx_size": 5}),
        (f"title llama-server\ntaskkill /im llama-server.exe\n{RUN} -c 5 || pause", {"ctx_size": 5}),
        (f"{RUN} -fa\n-c 5", {"ctx_size": 5, "flash_attn": "on"}),
        (f"{RUN} -sys \"be ^ kind & (good)\" -c 5", {"ctx_size": 5, "system": "be ^ kind & (good)"}),
        (f"set C=5\ngoto run\nset C=6\n{RUN} -c 7\n:run\n{RUN} -c %C%", {"ctx_size": 5}),
        (f"call :serve 5\ngoto :eof\n:serve\n{RUN} -c 5\nexit /b", {"ctx_size": 5}),
        ("C:\nrem \ncd \\m\nllama-server -m a.gguf -c 5 & pause", {"ctx_size": 5}),
        (RUN + ' --chat-template-kwargs "{""a"": 1}"', {"chat_template_kwargs": '{"a": 1}'}),
    ],
)  # fmt: skip
def test_batch_files(text: str, expected: dict[str, object]) -> None:
    assert detect(text, "-") == "batch"
    assert read("batch", text)[0] == {"model": MODEL, **expected}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"& \"C:\\l l\\llama-server.exe\" `\n  -m \"{MODEL}\" `\n  -c 5 # five\n", {"ctx_size": 5}),
        (f"$env:CUDA_VISIBLE_DEVICES = '0'\n$m = '{MODEL}'\n$c=5\n.\\llama-server.exe -m $m -c $c", {"ctx_size": 5}),
        ("$dir = \"C:\\m\"\n& llama-server -m \"$dir\\a.gguf\" -c $($c5) -ngl 9", {"gpu_layers": 9}),
        (f"$a = @(\n  \"-m\", \"{MODEL}\"  # it\n  '-c', 5,\n  \"-ngl\", \"9\"\n)\n& .\\llama-server.exe @a",
         {"ctx_size": 5, "gpu_layers": 9}),
        (f"$a = '-m', '{MODEL}'\n$a += '-c', '5'\n& llama-server.exe $a", {"ctx_size": 5}),
        (f"$a = @('-m', '{MODEL}')\n$a += @('-c', '5')\n& llama-server.exe @a @args", {"ctx_size": 5}),
        (f"param(\n  [string]$Model = \"{MODEL}\",\n  [int]$Ctx = 5\n)\nllama-server -m $Model -c $Ctx", {"ctx_size": 5}),
        (f"Start-Process -FilePath llama-server.exe -ArgumentList '-m {MODEL}', '-c', '5' -NoNewWindow", {"ctx_size": 5}),
        (f"Start-Process llama-server.exe -ArgumentList \"-m `\"{MODEL}`\" -c 5\" -WindowStyle Hidden", {"ctx_size": 5}),
        (f"$p = Start-Process -FilePath \"C:\\l l\\llama-server.exe\" `\n  -ArgumentList @('-m', '{MODEL}',\n '-c', 5)",
         {"ctx_size": 5}),
        ("$d = 'C:\\m'\n$m = Join-Path $d 'a.gguf'\n& llama-server -m $m -fa", {"flash_attn": "on"}),
        ("$d = 'C:\\'\n& llama-server -m (Join-Path $d \"m\" 'a.gguf') -c 5", {"ctx_size": 5}),
        ("Set-Location C:\\m\n.\\llama-server.exe -m a.gguf -c 5 2>&1 | Tee-Object log.txt", {"ctx_size": 5}),
        (f"Get-Process llama-server -ErrorAction Ignore | Stop-Process\nllama-server -m {MODEL} -c 5", {"ctx_size": 5}),
        (f"$env:LLAMA_ARG_CTX_SIZE = 5; llama-server -m {MODEL}", {"ctx_size": 5}),
        (f"if (-not (Test-Path $x)) {{\n  Write-Host 'no {{'\n  exit\n}}\nwhile ($true) {{ & llama-server -m {MODEL} -c 5 }}",
         {"ctx_size": 5}),
        (f"<# -c 9\n#>\nfunction Start-It {{\n  & llama-server.exe -m {MODEL} -c 5\n}}\nStart-It", {"ctx_size": 5}),
        (f"& llama-server.exe -m {MODEL} -ts 3,1 -c 5", {"ctx_size": 5, "tensor_split": "3,1"}),
        (f"param([int[]]$D = @(1, 2),  # it's\n [ValidateSet('a','b')] [string] $M = '{MODEL}', [switch] $X)\n"
         "$c = [int]5\n& llama-server -m $M -c $c", {"ctx_size": 5}),
        (f"$a = New-Object System.Collections.Generic.List[string]\n$a.Add('-m'); [void]$a.Add('{MODEL}')\n"
         "$a.AddRange(@('-c', '5')) | Out-Null\n$null = $a.Add('-fa')\n& llama-server @a",
         {"ctx_size": 5, "flash_attn": "on"}),
        (f"$l = \"-m {MODEL} \" +\n  \"-c 5\"\nStart-Process llama-server -ArgumentList $l", {"ctx_size": 5}),
        ("function f {\n  foreach ($x in $y) { $z += @{ a = 1 } | Out-Null }\n  $q = if ($x) { 1 } else { 2 }\n}\n"
         "$best = $r | Where-Object { $_.ok } |\n  Sort-Object { $_.t }\n$v.w = 5; $u[0] = '}'\n"
         f"Write-Host \"it has $($v -join \", \") {{\"\nllama-server -m {MODEL} -c 5", {"ctx_size": 5}),
        ("$r = Split-Path -Parent 'C:\\m\\x'\nllama-server -m \"$r\\a.gguf\" -c 5", {"ctx_size": 5}),
        (f"$job = Start-Job {{ & llama-server -m {MODEL} -c 5 }}\nSay 'llama-server is there'", {"ctx_size": 5}),
    ],
)  # fmt: skip
def test_scripts_of_powershell(text: str, expected: dict[str, object]) -> None:
    assert read("powershell", text)[0] == {"model": MODEL, **expected}


@pytest.mark.parametrize(
    ("form", "text", "unknown"),
    [
        ("batch", f"{RUN} %* -t %NUMBER_OF_PROCESSORS% --port %PORT%", ["%*", "-t %NUMBER_OF_PROCESSORS%"]),
        ("batch", f"if exist x (\n set C=5\n) else (\n set C=6\n)\n{RUN} -c %C%", ["-c %C%"]),
        ("batch", f"set /p C=context?\n{RUN} -c %C%", ["-c %C%"]),
        ("batch", f"set C=5\nif errorlevel 2 goto run\nset C=6\n:run\n{RUN} -c %C%", ["-c %C%"]),
        ("batch", f"goto a%1\n:a1\nset C=5\ngoto run\n:a2\nset C=6\n:run\n{RUN} -c %C%", ["-c %C%"]),
        ("powershell", f"$d = @(1, 2)\nllama-server -m {MODEL} -ts $($d -join ',')", ["-ts $($d -join ',')"]),
        ("powershell", f"$c = 5\n$c++\nllama-server -m {MODEL} -c $c", ["-c $c"]),
        ("powershell", f"llama-server -m {MODEL} -a \"$((Get-Date).Year)\"  -c \"$([int]($x))\"", ["-c $([int]($x))"]),
        ("powershell", f"$l = \"-m {MODEL} -c $(Get-Content n -First 1)\"\nStart-Process llama-server -Arg $l",
         ["-c $(Get-Content n -First 1)"]),
        ("powershell", f"& llama-server -m {MODEL} @args -c $ctx -t $env:NUMBER_OF_PROCESSORS",
         ["@args", "-c $ctx", "-t $env:NUMBER_OF_PROCESSORS"]),
        ("powershell", f"llama-server -m {MODEL} @more", ["@more"]),
        ("powershell", f"$t = (Get-CimInstance Win32_Processor).NumberOfCores\nllama-server -m {MODEL} -t $t",
         ["-t (Get-CimInstance Win32_Processor).NumberOfCores"]),
        ("powershell", f"$c = 5\nif ($big) {{ $c = 6 }}\nllama-server -m {MODEL} -c $c", ["-c $c"]),
        ("powershell", f"$a = @('-m', '{MODEL}')\nif ($big) {{ $a += '-c', '6' }}\nllama-server @a", ["-c 6"]),
    ],
)  # fmt: skip
def test_what_only_a_run_can_tell_is_listed(form: str, text: str, unknown: list[str]) -> None:
    settings, reasons = read(form, text)
    assert settings == {"model": MODEL}
    assert reasons[NOT_KNOWN] == unknown


@pytest.mark.parametrize(
    ("form", "text", "sentence"),
    [
        ("batch", f"{RUN} ^", "A line is cut off, or quotes or brackets are not closed (line 1): give the whole script."),
        ("batch", f"{RUN} -sys \"x", "A line is cut off"),
        ("batch", "if exist x (\n" + RUN, "A line is cut off"),
        ("batch", "llama-server -m %USERPROFILE%\\a.gguf", "-m is %USERPROFILE%\\a.gguf, which only a run can tell"),
        ("batch", "set A=xxxxxxxx\n" + "set A=%A%%A%%A%%A%\n" * 20, "Its variables grow without end."),
        ("powershell", "llama-server -m 'x", "A line is cut off, or quotes or brackets are not closed (line 1): give"),
        ("powershell", "$a = @('-m', 'x'\nllama-server @a", "A line is cut off"),
        ("powershell", "if ($x) {\nllama-server -m x\n", "A line is cut off"),
        ("powershell", "llama-server -m \"$env:USERPROFILE\\a.gguf\"", "-m is $env:USERPROFILE\\a.gguf, which only a run"),
        ("powershell", "$a = 'xxxxxxxx'\n" + "$a = \"$a$a$a$a\"\n" * 20, "Its variables grow without end."),
    ],
)  # fmt: skip
def test_half_a_line_is_no_profile(form: str, text: str, sentence: str) -> None:
    with pytest.raises(SpectuiError) as error:
        FORMATS[form].read(text, None)
    assert str(error.value).startswith(sentence)
    assert error.value.exit_code == 1


def test_what_is_beside_it_is_listed() -> None:
    text = f"set CUDA_VISIBLE_DEVICES=0\nset X=1\ncopy a b\nfor %%f in (x) do del %%f\n{RUN} --port 80 > log.txt 2>&1\npause"
    assert read("batch", text)[1] == {
        ENVIRONMENT: ["CUDA_VISIBLE_DEVICES=0"], NOT_USED: ["--port 80"], OTHER_LINES: ["copy a b", "del %%f"],
        SHELL: ["> log.txt 2>&1"],
    }  # fmt: skip
    text = f"$env:CUDA_VISIBLE_DEVICES = 0\nCopy-Item a b\n& {RUN} --port 80 *> log.txt"
    assert read("powershell", text)[1] == {
        ENVIRONMENT: ["CUDA_VISIBLE_DEVICES=0"], NOT_USED: ["--port 80"], OTHER_LINES: ["Copy-Item a b"], SHELL: ["*> log.txt"],
    }  # fmt: skip


def test_relative_paths_are_this_machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    here = {"model": str(tmp_path / "m/a.gguf")}
    assert read("batch", r"llama-server.exe -m .\m\a.gguf")[0] == here
    assert read("batch", r"%~dp0llama-server.exe -m %~dp0m\a.gguf", tmp_path / "a.bat")[0] == here
    assert read("batch", "cd /d %~dp0\r\nllama-server -m m\\a.gguf", tmp_path / "a.bat")[0] == here
    assert (
        read("powershell", r"& $PSScriptRoot\llama-server.exe -m $PSScriptRoot\m\a.gguf", tmp_path / "a.ps1")[0] == here
    )
    assert read("powershell", r"llama-server.exe -m m\a.gguf")[0] == here


def test_words_of_a_command_line() -> None:
    assert split_windows(r'a "b c" d\e "f\" g" "h\\" i""j ""') == ["a", "b c", r"d\e", 'f" g', "h\\", "ij", ""]
    with pytest.raises(ValueError, match="not closed"):
        split_windows('a "b')


def test_llama_swap_on_windows() -> None:
    found = FORMATS["llama-swap"].read(f"models:\n  a:\n    cmd: C:\\l\\llama-server.exe -m {MODEL} -c 5\n", None)
    assert found.profiles[0].settings == {"model": MODEL, "ctx_size": 5}


PIECES = st.sampled_from(
    ["llama-server", " -m ", "C:\\a.gguf", "%A%", "%", "%~dp0", "^", "\n", "\r\n", '"', "'", "`", "$a", "$(", ")", "@(", "@a",
     "{", "}", "if ", "else ", "set A=", "$a = ", "+= ", ",", "|", "&", ";", "(", ">", "rem ", "#", "<#", "#>", "start ",
     "for %%i in (", ") do ", "param(", "@'\n", "\n'@", "Join-Path ", "Start-Process ", "-ArgumentList ", "ü", "!A!",
     "if \"%A%\"==\"\" ", "cd "]
)  # fmt: skip


@pytest.mark.parametrize("reader", [batch.read, powershell.read])
@hypothesis_settings(max_examples=200, deadline=None)
@given(text=st.lists(PIECES, max_size=24).map("".join))
def test_any_text_is_a_profile_or_one_sentence(reader, text: str) -> None:
    with suppress(SpectuiError):
        profile_of(text, None, reader)
