"""Other programs' commands as profiles: what becomes a setting, and what is listed."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from spectui import config
from spectui.errors import UsageError
from spectui.profiles import llama_swap, preset_ini
from spectui.profiles.command_line import NOT_USED
from spectui.profiles.commands.reader import SHELL, Script
from spectui.profiles.formats import FORMATS, detect
from spectui.profiles.imported import CHANGES_TEXT, ENVIRONMENT, NO_DRAFTER, UNKNOWN, ImportedFile, LeftOut, Started, imported

GUIDE = """\
models:
  "qwen-coder-32b-q4":
    # main model on 3090, draft on P40 #1
    cmd: >
      /mnt/nvme/llama-server/llama-server-be0e35
      --host 127.0.0.1 --port 9503
      --flash-attn --metrics
      --slots
      --model /mnt/nvme/models/Qwen2.5-Coder-32B-Instruct-Q4_K_M.gguf
      -ngl 99
      --ctx-size 19000
      --model-draft /mnt/nvme/models/Qwen2.5-Coder-0.5B-Instruct-Q8_0.gguf
      -ngld 99
      --draft-max 16
      --draft-min 4
      --draft-p-min 0.4
      --device CUDA0
      --device-draft CUDA1
    proxy: "http://127.0.0.1:9503"
"""
"""The file of llama-swap's guide to speculative decoding."""


def read_shell(text: str, file: Path | None = None) -> ImportedFile:
    """What a line or a script of sh becomes."""
    return Script(SHELL, file).profile(text)


def left_out(found: ImportedFile, number: int = 0) -> dict[str, list[str]]:
    """What was left out of a profile, by reason."""
    reasons: dict[str, list[str]] = {}
    for reason, what in found.profiles[number].left_out:
        reasons.setdefault(reason, []).append(what)
    return reasons


def test_llama_swaps_guide() -> None:
    found = llama_swap.read(GUIDE)
    (profile,) = found.profiles
    assert profile.name == "qwen-coder-32b-q4"
    assert profile.settings == {
        "model": "/mnt/nvme/models/Qwen2.5-Coder-32B-Instruct-Q4_K_M.gguf",
        "draft": "/mnt/nvme/models/Qwen2.5-Coder-0.5B-Instruct-Q8_0.gguf",
        "ctx_size": 19000, "gpu_layers": 99, "gpu_layers_draft": 99, "device": "CUDA0", "device_draft": "CUDA1",
        "flash_attn": "on", "draft_max": 16, "draft_min": 4, "p_min": 0.4,
    }  # fmt: skip
    assert left_out(found) == {
        NOT_USED: ["--host 127.0.0.1", "--port 9503", "--metrics", "--slots"],
        llama_swap.OF_LLAMA_SWAP: ["proxy"],
    }


SWAP = """\
healthCheckTimeout: 500
macros:
  server: >
    /opt/llama-server --port ${PORT}
    ${common}
  common: --ctx-size ${ctx} --jinja
  ctx: 4096
models:
  one:
    macros:
      ctx: 1024
    cmd: |
      # ${unknown} in a comment is no macro
      ${server}
      --model "/m/${MODEL_ID} file.gguf" \\
      --flash-attn on \\
      --temp ${env.SPECTUI_TEST_TEMP}
    env:
      - CUDA_VISIBLE_DEVICES=0,1
      - LLAMA_ARG_TOP_K=7
      - HF_TOKEN=geheim
    ttl: 60
  two:
    cmd: docker run -v /srv/models:/m ghcr.io/ggml-org/llama.cpp:server --model /models/x.gguf
  three: &shared
    cmd: ${server} -m /m/three.gguf
  four:
    <<: *shared
  five:
    cmd: vllm serve model
  six:
    cmd: ${nothing} -m x.gguf
groups:
  a: {members: [one, two]}
"""


def test_macros_environment_and_what_is_no_llama_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECTUI_TEST_TEMP", "0.3")
    found = llama_swap.read(SWAP)
    assert [each.name for each in found.profiles] == ["one", "three", "four"]
    assert found.profiles[0].settings == {
        "model": "/m/one file.gguf", "ctx_size": 1024, "flash_attn": "on", "temperature": 0.3, "top_k": 7,
    }  # fmt: skip
    assert found.profiles[1].settings == found.profiles[2].settings == {"model": "/m/three.gguf", "ctx_size": 4096}
    assert left_out(found) == {
        ENVIRONMENT: ["CUDA_VISIBLE_DEVICES=0,1"],
        NOT_USED: ["--port ${PORT}", "--jinja"],
        llama_swap.OF_LLAMA_SWAP: ["ttl"],
    }
    assert [what for _, what in found.left_out] == ["healthCheckTimeout", "groups"]
    assert list(found.refused) == ["two", "five", "six"]
    assert found.refused["two"] == "its --model /models/x.gguf is a path in a container, and no volume of it holds that."
    assert "vllm" in found.refused["five"]
    assert found.refused["six"] == "it uses the macro ${nothing}, which the file does not define."


def test_a_value_of_yaml_stays_as_it_is_written() -> None:
    found = llama_swap.read("macros: {fa: on, t: 0.70}\nmodels:\n  on:\n    cmd: llama-server -fa ${fa} --temp ${t}\n")
    assert found.profiles[0].name == "on"
    assert found.profiles[0].settings == {"flash_attn": "on", "temperature": 0.7}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "There are no models in it"),
        ("- a\n- b\n", "There are no models in it"),
        ("models: {}\n", "There are no models in it"),
        ("models: [a]\n", "There are no models in it"),
        ("models:\n  a: b: c\n", "It is not valid YAML (line 2): mapping values are not allowed here."),
        ("models: !!python/object:os.system x\n", "It is not valid YAML (line 1)"),
        ("models: \x00\n", "It is not valid YAML"),
        pytest.param("models: " + "[" * 1000, "It is not valid YAML: maximum recursion", id="deep"),
        ("models:\n  a: 3\n", "No model in it can be imported; of a: it has no cmd."),
        ("models:\n  a: {cmd: [llama-server]}\n", "of a: it has no cmd."),
        ("models:\n  a: {cmd: 'llama-server -m \"x'}\n", "of a: quotes are not closed in its command."),
        ("models:\n  a: {cmd: '${a} x', macros: {a: '${b}', b: '${a}'}}\n", "of a: its macros hold one another"),
        ("models:\n  a: {cmd: '${a}', macros: {a: '${b}${b}', b: '${a}${a}'}}\n", "of a: its macros hold one another"),
        ("models:\n  a: {cmd: 'llama-server ${env.SPECTUI_NO}'}\n", "needs the variable SPECTUI_NO, which is not set."),
        ("models:\n  a: {cmd: '# nothing'}\n", "of a: there is no command in it."),
    ],
)
def test_a_bad_yaml_gets_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(UsageError) as error:
        llama_swap.read(text)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


SCRIPT = """\
#!/bin/sh
# how I start it
export CUDA_VISIBLE_DEVICES=0
MODELS="/my models"
cd /tmp
LLAMA_ARG_CTX_SIZE=512 nohup llama-server -m "$MODELS/x #1.gguf" -ngl all --draft 12 \\
  -hfd a/b --foo 3 -4 \\
  --api-key geheim -hft geheim --lora a.gguf --no-repack -b 0 stray > log 2>&1 &   # a comment's "quote
"""


def test_a_script_around_a_command() -> None:
    found = read_shell(SCRIPT)
    assert found.profiles[0].name == "x #1"
    assert found.profiles[0].settings == {
        "model": "/my models/x #1.gguf", "ctx_size": 512, "gpu_layers": -2, "no_repack": "on", "draft_max": 12,
    }  # fmt: skip
    reasons = left_out(found)
    assert reasons[ENVIRONMENT] == ["CUDA_VISIBLE_DEVICES=0"]
    assert reasons[CHANGES_TEXT] == ["--lora a.gguf"]
    assert reasons[NOT_USED] == ["--api-key …", "-hft …"], "a secret is not shown"
    everything = [f"{reason}: {what}" for reason, what in (*found.profiles[0].left_out, *found.left_out)]
    for part in ("-hfd a/b", "--foo 3 -4", "stray", "batch must be between"):
        assert sum(part in each for each in everything) == 1, part


def test_flags_alone_are_a_command() -> None:
    assert read_shell("-m /x.gguf\n--temp=0\n").profiles[0].settings == {"model": "/x.gguf", "temperature": 0.0}


@pytest.mark.parametrize(("flags", "stop"), [("-e", "\n\n"), ("", "\n\n"), ("--no-escape", r"\n\n")])
def test_stop_texts_are_read_as_llama_server_reads_them(flags: str, stop: str) -> None:
    (found,) = read_shell(rf"-m /x.gguf -sp -r User: {flags} --reverse-prompt '\n\n'").profiles
    assert found.settings == {"model": "/x.gguf", "stop": ("User:", stop), "special": "on"}
    assert found.left_out == ()


def test_paths_start_at_the_working_directory_and_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/me")
    found = imported(Started(["-m", "a/b.gguf", "-md", "~/c.gguf"]))
    assert found.settings == {"model": str(tmp_path / "a/b.gguf"), "draft": "/home/me/c.gguf"}


@pytest.mark.parametrize(
    ("flags", "drafter", "lacking"),
    [("--spec-type draft-simple", "model", []), ("--spec-type ngram-mod", "suffix", []), ("--spec-type none", "off", []),
     ("--spec-type ngram-cache,draft-simple", "auto", []), ("--spec-default", "suffix", []),
     ("--spec-type draft-simple --spec-default", "auto", []), ("--spec-type draft-eagle3", "model", []),
     ("--spec-type draft-dflash", "model", []), ("--spec-type draft-dspark", None, ["draft-dspark"]),
     ("--spec-type draft-mtp", "mtp", []), ("--spec-type draft-mtp,ngram-mod", "auto", []),
     ("--spec-type draft-simple,draft-dspark,ngram-mod", "auto", ["draft-dspark"])],
)  # fmt: skip
def test_the_type_of_speculation_is_the_drafter(flags: str, drafter: str | None, lacking: list[str]) -> None:
    found = read_shell(f"llama-server {flags}").profiles[0]
    assert found.settings.get("drafter") == drafter
    assert found.left_out == tuple(LeftOut(NO_DRAFTER, each) for each in lacking)


def test_a_draft_of_an_unknown_kind_is_left_out() -> None:
    for kind in ("draft-eagle3", "draft-dflash"):
        assert not read_shell(f"llama-server -m /a -md /b --spec-type {kind}").profiles[0].left_out
    head = read_shell("llama-server -m /a -md /b --spec-type draft-dspark").profiles[0]
    assert head.settings == {"model": "/a"}
    assert head.left_out[1].what == "draft /b is left out: it is made for what spectui does not have."


def test_a_draft_min_that_would_ignore_every_draft_is_left_out() -> None:
    found = imported(Started(["--draft-max", "4", "--draft-min", "9"]))
    assert found.settings == {"draft_max": 4}
    assert "draft-min 9 is left out" in found.left_out[0].what


INI = """\
version = 1
; shared by all
[*]
c = 8192   ; tokens
n-gpu-layers = 8
load-on-startup = true

[ggml-org/MY-MODEL-GGUF:Q8_0]
chat-template = chatml
LLAMA_ARG_N_GPU_LAYERS = 123
repack = false
jinja = false
mlock = false

[custom]
model = /m/a b.gguf#comment
spec-type = ngram-simple
flash-attn = 1
unheard-of = 3
"""


def test_a_preset_file() -> None:
    found = preset_ini.read(INI)
    hub, custom = found.profiles
    assert (hub.name, hub.settings) == ("ggml-org/MY-MODEL-GGUF:Q8_0", {"ctx_size": 8192, "gpu_layers": 123, "no_repack": "on"})
    assert (custom.name, custom.settings) == (
        "custom",
        {"model": "/m/a b.gguf", "ctx_size": 8192, "gpu_layers": 8, "flash_attn": "on", "drafter": "suffix"},
    )
    reasons = left_out(found)
    assert reasons[CHANGES_TEXT] == ["--chat-template chatml", "--no-jinja"]
    assert reasons[NOT_USED] == ["--mlock false"]
    assert reasons[preset_ini.OF_PRESETS] == ["load-on-startup = true"]
    assert reasons[""] == ["ggml-org/MY-MODEL-GGUF:Q8_0 names no model: give one with -m, or fetch it with -hf."]
    assert "--unheard-of 3" in [what for _, what in custom.left_out]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "There is no section in it"),
        ("version = 1\n", "There is no section in it"),
        ("[*]\nc = 5\n", "It has no section but [*], which names no model"),
        ("[a]\nmodel\n", "Line 2 is no section, no key = value and no comment: 'model'."),
        ("[a\n", "Line 1 is no section"),
    ],
)
def test_a_bad_preset_file_gets_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(UsageError) as error:
        preset_ini.read(text)
    assert str(error.value).startswith(sentence)


PIECES = st.sampled_from(
    ["models:", "\n", " ", "  a:", " cmd: ", "|", "llama-server", " -m ", "x.gguf", '"', "'", "\\", "#", "$A", "${A}",
     "${env.A}", "macros:", "{A: '${B}'}", "[s]", "=", ";", "c = 5", "--temp", "-1", "spectui: top-k = ", "7", "&", "*",
     "<<: ", "- ", "\0", "\t", "export ", "A=1", "--spec-type", "--draft-min 9", "ü", "!!int ", "-hf a/b", "--unheard"]
)  # fmt: skip


@pytest.mark.parametrize("form", FORMATS)
@hypothesis_settings(max_examples=150, deadline=None)
@given(text=st.lists(PIECES, max_size=24).map("".join))
def test_any_text_is_profiles_or_one_sentence(form: str, text: str) -> None:
    try:
        found = FORMATS[form].read(text, None)
    except UsageError:
        return
    for profile in found.profiles:
        for key, value in profile.settings.items():
            assert config.convert(key, value, "again") == value


@pytest.mark.parametrize(
    ("text", "name", "form"),
    [(GUIDE, "-", "llama-swap"), (INI, "-", "preset"), (SCRIPT, "-", "llama-server"), ("", "a.yml", "llama-swap"),
     ("", "a.INI", "preset"), ("llama-server -m 'models:'", "serve.sh", "llama-server"),
     ("./llama-server -m /a --alias '%x%' \\\n -c 5", "-", "llama-server"), ("", "a.BAT", "batch"), ("", "a.ps1", "powershell"),
     ("llama-server.exe -m C:\\m\\a.gguf", "-", "batch")],
)  # fmt: skip
def test_the_format_is_recognised(text: str, name: str, form: str) -> None:
    assert detect(text, name) == form


def test_mixtures_of_experts_are_placed_as_in_llama_server() -> None:
    line = "-m /x.gguf -ot exps=CPU -ncmoe 3 -ot 'attn.*=CUDA0' --cpu-moe-draft -otd a=CPU --presence-penalty 1.5"
    (found,) = read_shell(line).profiles
    assert found.settings == {
        "model": "/x.gguf", "override_tensor": "exps=CPU,attn.*=CUDA0", "n_cpu_moe": 3, "cpu_moe_draft": "on",
        "override_tensor_draft": "a=CPU", "presence_penalty": 1.5,
    }  # fmt: skip
    assert found.left_out == ()


@pytest.mark.parametrize(
    ("flags", "length", "is_left_out"),
    [
        ("--spec-type ngram-simple", 5, False),
        ("--spec-type ngram-simple --spec-draft-n-max 9", 5, False),
        ("--spec-type ngram-simple,draft-simple", 5, False),
        ("--spec-type ngram-simple,draft-simple --spec-draft-n-max 5", 5, False),
        ("--spec-type ngram-simple,draft-simple --spec-draft-n-max 3", 3, True),
        ("--spec-type draft-simple", None, True),
        ("-md /b --spec-draft-n-max 3", 3, True),
    ],
)
def test_the_length_of_a_lookups_drafts_is_draft_max_where_no_model_has_one(
    flags: str, length: int | None, is_left_out: bool
) -> None:
    profile = read_shell(f"llama-server -m /a {flags} --spec-ngram-simple-size-m 5").profiles[0]
    assert profile.settings.get("draft_max") == length
    assert profile.left_out == ((LeftOut(NOT_USED, "--spec-ngram-simple-size-m 5"),) if is_left_out else ())


def test_variables_of_other_versions_are_named_as_what_they_are() -> None:
    text = "LLAMA_ARG_DRAFT_P_MIN=0.5 LLAMA_ARG_NO_REPACK=1 CUDA_VISIBLE_DEVICES=0 llama-server -m /a"
    found = read_shell(text).profiles[0]
    assert found.settings == {"model": "/a", "no_repack": "on"}, "this llama.cpp reads both forms of a switch"
    assert found.left_out == (LeftOut(UNKNOWN, "LLAMA_ARG_DRAFT_P_MIN=0.5"), LeftOut(ENVIRONMENT, "CUDA_VISIBLE_DEVICES=0"))


def test_parameters_that_llama_swap_sets_and_types_as_other_versions_named_them() -> None:
    text = (
        "models:\n  a:\n    cmd: llama-server -m /a --spec-type mtp,ngram-mod\n    filters:\n      setParams:\n"
        "        top_k: 5\n        chat_template_kwargs: {enable_thinking: false, effort: low, n: 3, x: '007', y: 1e-3}\n"
    )
    (found,) = llama_swap.read(text).profiles
    assert found.settings == {
        "model": "/a", "drafter": "auto", "top_k": 5,
        "chat_template_kwargs": '{"enable_thinking": false, "effort": "low", "n": 3, "x": "007", "y": 0.001}',
    }  # fmt: skip
    assert not found.left_out
