"""The profiles of a configuration file, whose rest stays as it is; and flags that change a loaded set-up."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from spectui import config, paths
from spectui.errors import SpectuiError, UsageError
from spectui.knobs import Knobs, Setup
from spectui.profiles import named_prompts
from spectui.profiles.file import ProfileFile
from spectui.profiles.named_prompts import NamedPrompt
from spectui.profiles.setup_line import flags_of, with_flags

COMMENTED = """\
# my settings
[models]
ctx-size = 8192  # enough

[profiles.code]
temperature = 0.2  # cool
model = "big.gguf"

[ui.keys]
stop = "f11"
"""


def test_a_saved_profile_gives_the_knobs_that_were_saved(tmp_path: Path) -> None:
    path = tmp_path / "spectui" / "config.toml"
    knobs = Knobs(draft_max=24, temperature=0.2, seed=7, policy="fixed")
    ProfileFile(path).save("my code", knobs)
    assert ProfileFile(path).names() == ["my code"]
    assert config.load(path=path, profile="my code", environ={}).knobs == knobs
    assert Knobs(**ProfileFile(path).load("my code")) == knobs


def test_a_set_up_is_saved_as_far_as_it_is_not_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "spectui" / "config.toml"
    setup = Setup(model="big.gguf", draft="small.gguf", ctx_size=2048, threads=3)
    ProfileFile(path).save("tuned", Knobs(draft_max=3), setup)
    loaded = config.load(path=path, profile="tuned", environ={})
    assert loaded.setup == replace(setup, model=str(tmp_path / "big.gguf"), draft=str(tmp_path / "small.gguf"))
    assert loaded.knobs.draft_max == 3
    assert "gpu-layers" not in path.read_text()


def test_a_file_that_an_editor_of_windows_saved_is_written_to(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(f"\ufeff{COMMENTED}".replace("\n", "\r\n").encode())
    ProfileFile(path).save("code", Knobs(temperature=0.5))
    ProfileFile(path).write({"new": {"model": "/m/a.gguf"}})
    assert path.read_bytes().startswith(b"# my settings\r\n")
    assert config.load(path=path, profile="new", environ={}).setup.model == "/m/a.gguf"
    assert config.load(path=path, profile="code", environ={}).knobs.temperature == 0.5


def test_a_dollar_sign_in_a_path_stays_one(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    ProfileFile(path).write({"a": {"model": "/m/$HOME/$$/a.gguf"}})
    assert config.load(path=path, profile="a", environ={}).setup.model == "/m/$HOME/$$/a.gguf"


def test_saving_keeps_comments_and_everything_else(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(COMMENTED)
    ProfileFile(path).save("code", Knobs(temperature=0.5))
    ProfileFile(path).save("prose", Knobs(temperature=1.0))
    text = path.read_text()
    for kept in (
        "# my settings",
        "ctx-size = 8192  # enough",
        "temperature = 0.5  # cool",
        'model = "big.gguf"',
        'stop = "f11"',
    ):
        assert kept in text
    loaded = config.load(path=path, profile="code", environ={})
    assert (loaded.knobs.temperature, loaded.setup.ctx_size, loaded.ui.keys) == (0.5, 8192, {"stop": "f11"})
    assert ProfileFile(path).names() == ["code", "prose"]
    assert list(tmp_path.iterdir()) == [path], "no temporary file is left"


def test_a_knob_is_changed_where_the_profile_has_it(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("[profiles.a]\ndraft_max = 3\n[profiles.a.sampling]\ntemperature = 0.1\n")
    ProfileFile(path).save("a", Knobs(draft_max=9, temperature=0.3))
    loaded = config.load(path=path, profile="a", environ={}).knobs
    assert (loaded.draft_max, loaded.temperature) == (9, 0.3)


def test_the_example_file_can_be_saved_into(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    example = paths.shipped("config.example.toml").read_text()
    path.write_text(example)
    ProfileFile(path).save("new", Knobs(top_k=7))
    assert config.load(path=path, profile="new", environ={}).knobs.top_k == 7
    written = path.read_text().splitlines()
    assert [line for line in example.splitlines() if line not in written] == []


def test_a_written_profile_holds_what_was_given_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(COMMENTED + "[profiles.code.sampling]\ntop_k = 3\n")
    with pytest.raises(SpectuiError, match=r"has a profile 'code' already: --replace it"):
        ProfileFile(path).write({"new": {"top_k": 5}, "code": {"top_k": 5}})
    assert "new" not in path.read_text(), "all profiles are written, or none"
    ProfileFile(path).write({"new": {"top_k": 5}, "code": {"temperature": 0.7, "top_k": 4, "ctx_size": 99}}, replace=True)
    code = config.load(path=path, profile="code", environ={})
    assert (code.knobs, code.setup.ctx_size, code.setup.model) == (Knobs(temperature=0.7, top_k=4), 99, None)
    text = path.read_text()
    assert all(kept in text for kept in ("# my settings", "8192  # enough", "temperature = 0.7  # cool", 'stop = "f11"'))


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "x" * 121])
def test_a_name_must_be_printable_and_short(tmp_path: Path, name: str) -> None:
    with pytest.raises(SpectuiError, match="1 to 120 printable"):
        ProfileFile(tmp_path / "config.toml").save(name, Knobs())
    assert list(tmp_path.iterdir()) == []


def test_an_unreadable_or_unwritable_file_gets_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("[profiles\n")
    for attempt in (lambda: ProfileFile(path).names(), lambda: ProfileFile(path).save("a", Knobs())):
        with pytest.raises(SpectuiError, match="not valid TOML"):
            attempt()
    assert path.read_text() == "[profiles\n"
    path.write_text("profiles = 3\n")
    with pytest.raises(SpectuiError):
        ProfileFile(path).save("a", Knobs())
    (tmp_path / "file").write_text("")
    with pytest.raises(SpectuiError, match="cannot be written"):
        ProfileFile(tmp_path / "file" / "config.toml").save("a", Knobs())


LOADED = Setup(model="m", draft="d", system="be brief", gpu_layers=12, cache_type_k="q8_0")


def test_flags_change_what_they_name_and_nothing_else() -> None:
    found = with_flags(LOADED, "-ngl all --ctx-size=8192 -fa -sm none -ts 3,1 -td 2 -ngld -1")
    assert found == Setup(
        model="m", draft="d", system="be brief", cache_type_k="q8_0", gpu_layers=-2, ctx_size=8192, flash_attn="on",
        split_mode="none", tensor_split="3,1", threads_draft=2,
    )  # fmt: skip
    assert with_flags(found, "-ts '' -fa off --strict").tensor_split == ""
    assert with_flags(found, "--strict").strict == "on"
    assert with_flags(LOADED, "") == LOADED


def test_a_set_up_is_written_as_flags_that_bring_it_back() -> None:
    assert flags_of(Setup(model="m", system="x")) == ""
    changed = with_flags(LOADED, "-dev 'CUDA0, CUDA1' -fad off --numa distribute")
    assert flags_of(LOADED) == "-ngl 12 -ctk q8_0"
    assert with_flags(Setup(model="m", draft="d", system="be brief"), flags_of(changed)) == changed


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("-ngl many", "flag -ngl: gpu-layers must be a whole number, not 'many'."),
        ("-nlg 3", "There is no flag -nlg for the loaded models; did you mean -ngl?"),
        ("-m other.gguf", "There is no flag -m for the loaded models"),
        ("20", "Models are placed with flags such as -ngl 20 -ctk q8_0, not '20'."),
        ("-c", "The flag -c needs a value."),
        ("-ctk q9", "cache-type-k is one of"),
        ("-dev 'CUDA0", "is no line of flags: No closing quotation."),
    ],
)
def test_a_line_that_cannot_be_is_refused(line: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        with_flags(LOADED, line)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("written", "is_"),
    [
        ("Rhyme.\n", NamedPrompt("Rhyme.", {}, "Rhyme.")),
        ("---\ntop-k: 3\nseed: random\n---\n", NamedPrompt("", {"top_k": 3, "seed": -1}, "top-k, seed")),
        ("---\ndescription: 'a: b'\nstop: [A, B]\n---\n# Be", NamedPrompt("# Be", {"stop": ("A", "B")}, "a: b")),
        ("---\ntop_kk: 3\n---\n", "no knob 'top_kk'; did you mean top-k?"),
        ("---\ntop-k: many\n---\n", "top-k must be a whole number, not 'many'"),
        ("---\n- a\n---\n", "its head has lines such as temperature: 0.2"),
        ("---\na: [\n---\n", "It is not valid YAML"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("fresh_directories")
def test_a_named_prompt_has_a_text_and_a_head_with_knobs(written: str, is_: NamedPrompt | str) -> None:
    file = paths.config_directory() / "prompts" / "one.md"
    file.parent.mkdir(parents=True)
    file.write_text(written)
    if isinstance(is_, NamedPrompt):
        assert named_prompts.read("one") == is_
    else:
        with pytest.raises(UsageError, match=re.escape(is_)):
            named_prompts.read("one")
        assert is_ in named_prompts.listed()["one"], "the list says it too"
    with pytest.raises(UsageError, match=r"There is no .*two\.md"):
        named_prompts.read("two")
