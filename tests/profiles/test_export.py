"""Profiles as other programs take them, and back again without loss."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from spectui import config
from spectui.config import SETTINGS, Configuration
from spectui.errors import UsageError
from spectui.profiles.exported import DRAFT_FLAGS, FLAGS, LOOKUP_LENGTH, SPECULATION_FLAGS, exported
from spectui.profiles.file import ProfileFile
from spectui.profiles.formats import FORMATS, WRITTEN, detect
from tests.generators.llama_flags import help_texts, parse
from tests.helpers.peers import BIN, NOT_THERE

PAIR = {"model": "/m/big.gguf", "draft": "/m/small.gguf"}


def loaded(path: Path, name: str, settings: dict[str, Any]) -> Configuration:
    """The configuration of a profile that holds these settings."""
    ProfileFile(path).write({name: settings}, replace=True)
    return config.load(path=path, profile=name, environ={})


def arguments(path: Path, **settings: Any) -> dict[str, str]:
    """The flags that a profile is exported as, with their values."""
    found = exported(loaded(path, "a", settings), "a").arguments
    return {flag: " ".join(values) for flag, *values in found}


ODD = (
    "a", "it's \"q\" b", "$HOME `x` $(y)", "a\\b\\n", "é 日本😀", "%h %i %x%", "*a?", "a=b,c", "-m", "~x", "!x!%Y%^&", "a'b",
    "{a,b}", "on", "null", "x: y", "a/b:Q8_0",
)  # fmt: skip
"""Names of profiles and files."""


def value_of(key: str) -> st.SearchStrategy[Any]:
    """Any value that a setting can have."""
    spec, kind = SETTINGS[key].spec, SETTINGS[key].kind
    if spec.choices:
        return st.sampled_from(spec.choices)
    if kind is str:
        if spec.metavar == "JSON":
            return st.sampled_from(["", '{"enable_thinking": false}', '{"a": "it\'s $HOME", "ü": [1, null]}'])
        if spec.metavar == "FILE":
            return st.sampled_from(ODD).map("/m/{}.gguf".format)
        return st.sampled_from(["", "CUDA0,CUDA1", "3,1"]) if key != "system" else st.text("a\"'\\\n\t#;$ {}ü\x7f", max_size=8)
    if kind is tuple:
        return st.lists(st.text("aé\"'\\\n\t#$ }-", min_size=1, max_size=5), max_size=3)
    assert spec.low is not None and spec.high is not None
    return st.integers(int(spec.low), int(spec.high)) if kind is int else st.floats(spec.low, spec.high)


EVERYTHING = st.fixed_dictionaries(
    {"model": value_of("model")},
    optional={key: value_of(key) for key, row in SETTINGS.items() if row.spec.section != "ui" and key != "model"},
)


@pytest.mark.parametrize("form", WRITTEN)
@hypothesis_settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=EVERYTHING, name=st.sampled_from(ODD))
def test_what_is_exported_and_imported_again_is_the_same_profile(
    tmp_path: Path, form: str, values: dict[str, Any], name: str
) -> None:
    if values.get("draft_min", 0) > values.get("draft_max", 16):
        values["draft_min"] = 0
    # The file has settings of its own, which the profile overrides or not.
    path = tmp_path / "config.toml"
    path.write_text('[models]\nctx-size = 999\nsystem = "mine"\n[speculation]\ndraft-max = 30\npolicy = "expected"\n')
    before = loaded(path, name, values)
    text = WRITTEN[form]([(name, exported(before, name))])
    assert detect(text, "-") == form
    (found,) = FORMATS[form].read(text, None).profiles
    assert found.name == name or (form == "llama-server" and "," in name)
    after = loaded(tmp_path / "elsewhere.toml", name, dict(found.settings))
    assert (after.knobs, after.setup) == (before.knobs, before.setup)
    assert [what for _, what in found.left_out] == (["--port ${PORT}"] if form == "llama-swap" else [])


def test_every_setting_is_a_flag_or_kept_in_a_comment() -> None:
    others = {key for key, row in SETTINGS.items() if row.spec.section != "ui"} - {*FLAGS, *DRAFT_FLAGS, *SPECULATION_FLAGS}
    assert others == {
        "async_draft", "split_mode_draft", "tensor_split_draft", "main_gpu_draft", "flash_attn_draft",
        "ctx_size_draft", "requantise_draft", "strict", "no_profile", "remember", "keep_read", "system",
        "no_template", "drafter", "policy", "context_full", "kernels", "server", "server_model", "server_key_file",
    }, "llama-server has no flag for these: give a new setting its flag, or add it here"  # fmt: skip
    assert len({*FLAGS.values(), *DRAFT_FLAGS.values(), *SPECULATION_FLAGS.values()}) == len(
        {*FLAGS, *DRAFT_FLAGS, *SPECULATION_FLAGS}
    )


def test_llama_server_has_every_flag_that_is_written() -> None:
    if not (BIN / "llama-server").exists():
        pytest.skip(NOT_THERE)
    theirs = {flag: option.arity for text in help_texts(BIN)[:1] for option in parse(text) for flag in option.flags}
    ours = {*FLAGS.values(), *DRAFT_FLAGS.values(), *SPECULATION_FLAGS.values(), LOOKUP_LENGTH, "--spec-type", "--alias"}
    assert {flag: theirs.get(flag) for flag in ours} == dict.fromkeys(ours, 1) | {
        "--no-repack": 0, "--special": 0, "--cpu-moe": 0, "--cpu-moe-draft": 0, "--swa-full": 0
    }  # fmt: skip


def test_what_llama_server_would_do_otherwise_by_default_is_always_written(tmp_path: Path) -> None:
    assert arguments(tmp_path / "c", **PAIR) == {
        "--model": "/m/big.gguf", "--model-draft": "/m/small.gguf", "--ctx-size": "4096", "--spec-draft-n-max": "16",
        "--spec-draft-p-min": "0.75", "--spec-type": "ngram-simple,draft-simple", "--spec-ngram-simple-size-m": "16",
    }  # fmt: skip


@pytest.mark.parametrize(("layers", "written"), [(-1, "auto"), (-2, "all"), (0, "0"), (99, "99")])
def test_layers_on_gpus(tmp_path: Path, layers: int, written: str) -> None:
    found = arguments(tmp_path / "c", **PAIR, gpu_layers=layers, gpu_layers_draft=layers)
    assert (found["--n-gpu-layers"], found["--n-gpu-layers-draft"]) == (written, written)


@pytest.mark.parametrize(
    ("settings", "kind", "draft"),
    [
        ({}, "ngram-simple,draft-simple", True),
        ({"drafter": "model"}, "draft-simple", True),
        ({"drafter": "suffix"}, "ngram-simple", False),
        ({"drafter": "off"}, None, False),
        ({"draft_max": 0}, None, False),
        ({"draft": ""}, "ngram-simple", False),
        ({"draft": "", "drafter": "model"}, None, False),
    ],
)
def test_the_drafter_is_the_nearest_that_llama_server_has(
    tmp_path: Path, settings: dict[str, Any], kind: str | None, draft: bool
) -> None:
    found = arguments(tmp_path / "c", **{**PAIR, **settings})
    assert (found.get("--spec-type"), "--model-draft" in found) == (kind, draft)
    assert ("--spec-draft-n-max" in found) == ("draft-simple" in (kind or ""))
    assert ("--spec-ngram-simple-size-m" in found) == ("ngram-simple" in (kind or "")), "the other one bounds no lookup"


@pytest.mark.parametrize("threads", [0, -1])
def test_the_targets_number_of_threads_is_not_all_cores(tmp_path: Path, threads: int) -> None:
    found = arguments(tmp_path / "c", **PAIR, threads=2, threads_draft=threads)
    assert (found["--threads"], found.get("--threads-draft")) == ("2", None)


def test_what_llama_server_lacks_is_kept_in_a_line_of_toml(tmp_path: Path) -> None:
    settings = {**PAIR, "system": "Be ${brief}.\nAlways.", "strict": "on", "device": "CUDA0", "policy": "auto"}
    assert set(exported(loaded(tmp_path / "c", "a", settings), "a").lacking) == {
        'strict = "on"', 'system = "Be \\u0024{brief}.\\nAlways."', 'drafter = "auto"', 'policy = "auto"'
    }  # fmt: skip


def test_a_profile_without_a_model_cannot_be_served(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"Profile 'a' names no model, which llama-server needs: give one with -m"):
        exported(loaded(tmp_path / "c", "a", {"top_k": 3}), "a")


@pytest.mark.parametrize(
    ("form", "name", "model", "sentence"),
    [
        ("preset", "*", "/m", "A preset cannot be named"),
        ("preset", "a]", "/m", "A preset cannot be named"),
        ("preset", "a", "/m#1", "A preset cannot hold --model '/m#1'"),
        ("preset", "a", "/m ", "at its ends are lost. Change the setting, or rename the file that it names."),
        ("llama-swap", "a", "/m/${x}", "look for a macro. Change the setting, or rename the file that it names."),
    ],
)
def test_what_a_format_cannot_hold_gets_one_sentence(tmp_path: Path, form: str, name: str, model: str, sentence: str) -> None:
    found = exported(loaded(tmp_path / "c", name, {"model": model}), name)
    with pytest.raises(UsageError) as error:
        WRITTEN[form]([(name, found)])
    assert sentence in str(error.value)


def test_several_profiles_in_one_file(tmp_path: Path) -> None:
    profiles = [(name, exported(loaded(tmp_path / "c", name, {"model": f"/m/{name}"}), name)) for name in ("a", "b")]
    for form in ("llama-swap", "preset"):
        found = FORMATS[form].read(WRITTEN[form](profiles)).profiles
        assert [(each.name, each.settings["model"]) for each in found] == [("a", "/m/a"), ("b", "/m/b")]


@pytest.mark.parametrize(
    ("draft", "drafter", "heads", "kinds"),
    [
        ("", "mtp", "draft-mtp", "draft-mtp"), ("", "auto", "draft-mtp", "ngram-simple,draft-mtp"),
        ("/e", "mtp", "draft-eagle3", "draft-eagle3"), ("/e", "auto", "draft-dflash", "ngram-simple,draft-dflash"),
    ],
)  # fmt: skip
def test_heads_of_the_target_are_exported_as_what_llama_server_calls_them(
    tmp_path: Path, draft: str, drafter: str, heads: str, kinds: str
) -> None:
    profile = loaded(
        tmp_path / "c", "a", {"model": "/m", "draft": draft, "drafter": drafter, "policy": "fixed", "draft_max": 3}
    )
    found = dict(exported(profile, "a", heads=heads).arguments)
    assert (found["--spec-type"], found["--spec-draft-n-max"]) == (kinds, "3")
    assert found.get("--model-draft", "") == draft
