"""Precedence, origins, and configuration files that cannot be used."""

import pwd
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui import paths
from spectui.config import LARGEST_FILE, convert, load, nearest
from spectui.errors import UsageError
from spectui.gguf_files.catalogue import model_directories
from spectui.knobs import Knobs
from spectui.profiles.file import ProfileFile
from spectui.ui.remembered import Remembered
from tests.helpers.unprivileged import unprivileged

LAYERS = ("flag", "env", "profile", "file")


def write(directory: Path, text: str) -> Path:
    file = directory / "config.toml"
    file.write_text(text, encoding="utf-8")
    return file


@given(present=st.sets(st.sampled_from(LAYERS)))
def test_the_highest_layer_present_wins_and_is_named(tmp_path_factory: pytest.TempPathFactory, present: set[str]) -> None:
    values = dict(zip(LAYERS, (1, 2, 3, 4), strict=True))
    text = f"[sampling]\ntop-k = {values['file']}\n" if "file" in present else ""
    text += "[profiles.code]\n" + (f"top_k = {values['profile']}\n" if "profile" in present else "")
    file = write(tmp_path_factory.mktemp("config"), text)
    found = load(
        {"top_k": (str(values["flag"]), "--top-k")} if "flag" in present else {},
        path=file,
        profile="code",
        environ={"SPECTUI_TOP_K": str(values["env"])} if "env" in present else {},
    )
    winner = next((layer for layer in LAYERS if layer in present), "default")
    assert found.knobs.top_k == values.get(winner, Knobs().top_k)
    origins = {"flag": "flag --top-k", "env": "env SPECTUI_TOP_K", "profile": f"profile code in {file}"}
    assert found.origins["top_k"] == {**origins, "file": f"file {file}", "default": "default"}[winner]


def test_a_profile_that_is_not_chosen_changes_nothing(tmp_path: Path) -> None:
    assert load(path=write(tmp_path, "[profiles.code]\ntemperature = 0.1\n"), environ={}).knobs == Knobs()


def test_a_profile_may_have_sections(tmp_path: Path) -> None:
    file = write(tmp_path, '[profiles.code.sampling]\ntemperature = 0.1\n[profiles.code.ui.keys]\nstop = "f9"\n')
    found = load(path=file, profile="code", environ={})
    assert found.knobs.temperature == 0.1
    assert found.ui.keys == {"stop": "f9"}
    assert found.origins["ui.keys.stop"] == f"profile code in {file}"


def test_the_file_in_the_configuration_directory_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECTUI_CONFIG_DIR", str(tmp_path))
    write(tmp_path, "[speculation]\ndraft_max = 7\n")
    assert paths.config_file() == tmp_path / "config.toml"
    assert paths.user_themes_directory() == tmp_path / "themes"
    assert load(environ={}).knobs.draft_max == 7


def test_without_a_file_everything_is_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECTUI_CONFIG_DIR", str(tmp_path / "nowhere"))
    assert set(load(environ={}).origins.values()) == {"default"}
    with pytest.raises(UsageError, match="no profile 'code'"):
        load(profile="code", environ={})


def test_a_file_that_may_not_be_reached_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where HOME is another user's."""
    monkeypatch.setenv("SPECTUI_CONFIG_DIR", str(tmp_path / "closed" / "spectui"))
    (tmp_path / "closed").mkdir(mode=0)
    with unprivileged():
        assert set(load(environ={}).origins.values()) == {"default"}
        assert ProfileFile(paths.config_file()).names() == []
        assert Remembered(paths.config_directory() / "window.json").get("page", "now") == "now"


def test_a_user_without_a_home_gets_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that is run with the number of some user."""
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
    for name in ("SPECTUI_CONFIG_DIR", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UsageError, match="no home directory: set HOME"):
        paths.config_file()
    assert model_directories({}), "which need not exist"


@pytest.mark.parametrize("kind", ["config", "data", "state", "cache"])
def test_each_directory_can_be_moved(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find = getattr(paths, f"{kind}_directory")
    monkeypatch.delenv(f"SPECTUI_{kind.upper()}_DIR", raising=False)
    assert "spectui" in find().parts
    monkeypatch.setenv(f"SPECTUI_{kind.upper()}_DIR", str(tmp_path))
    assert find() == tmp_path


@pytest.mark.parametrize(
    ("written", "path"),
    [
        ("$HOME/a.gguf", "/home/me/a.gguf"), ("${HOME}/a.gguf", "/home/me/a.gguf"), ("~/a.gguf", "/home/me/a.gguf"),
        ("$HOME/$$x/a.gguf", "/home/me/$x/a.gguf"), ("/m/a$1.gguf", "/m/a$1.gguf"), ("/m/a$", "/m/a$"),
        ("pair/a.gguf", "{}/pair/a.gguf"),
    ],
)  # fmt: skip
def test_paths_in_a_file_start_at_the_file_and_their_variables_are_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str, path: str
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    file = tmp_path / "config.toml"
    file.write_text(f"model = '{written}'\n[profiles.a]\ndraft = '{written}'\nmodels-dir = '/x,{written}'\nsystem = '$HOME'\n")
    loaded, path = load(path=file, profile="a", environ={}), path.format(tmp_path)
    assert (loaded.setup.model, loaded.setup.draft, loaded.ui.models_dir) == (path, path, f"/x,{path}")
    assert loaded.setup.system == "$HOME", "text is no path"


def test_an_empty_flag_takes_a_model_of_the_file_away(tmp_path: Path) -> None:
    file = write(tmp_path, '[models]\ndraft = "small.gguf"\n')
    assert load({"draft": ("", "-md")}, path=file, environ={}).setup.draft is None


def test_variables_become_the_settings_type_and_an_empty_one_is_none() -> None:
    found = load(environ={"SPECTUI_P_MIN": "0.5", "SPECTUI_THEME": "mono", "SPECTUI_TEMPERATURE": ""})
    assert (found.knobs.p_min, found.ui.theme, found.origins["temperature"]) == (0.5, "mono", "default")


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("gpu_layers", "all", -2),
        ("top_k", "-1", 0),
        ("gpu_layers_draft", "auto", -1),
        ("flash_attn", "1", "on"),
        ("flash_attn", "off", "off"),
    ],
)
def test_llama_cpps_other_words_are_understood(key: str, text: str, value: object) -> None:
    assert convert(key, text, "flag") == value


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[sampling]\ntop-k = = 3\n", r"config\.toml is not valid TOML: .*line 2"),
        ("[sampling]\ntemprature = 1\n", r"\[sampling\]: there is no setting 'temprature'; did you mean temperature\?"),
        ("[smapling]\n", "'smapling'; did you mean sampling"),
        ("[speculation]\ntop-k = 3\n", r"top-k belongs in \[sampling\]"),
        ("[sampling]\ntop-k = 3\ntop_k = 4\n", "top-k is given twice"),
        ("[sampling]\ntop-k = 1.5\n", "top-k must be a whole number, not 1.5"),
        ("[sampling]\ntop-k = true\n", "top-k must be a whole number, not True"),
        ("[sampling]\ntemperature = [1]\n", "temperature must be a number"),
        ("[sampling]\ntemperature = nan\n", "temperature must be between 0 and 5"),
        ("[models]\nmodel = 3\n", "model must be text, not 3"),
        (
            "[models]\nmodel = '${NO_WHERE}/a.gguf'\n",
            r"\[models\]: model names the variable \$\{NO_WHERE\}, which is not set: ",
        ),
        ("stop = 7", "stop must be text or a list of texts, not 7"),
        ("stop = ['a', '']", "stop must be texts that are not empty, not ''"),
        ("stop = ['a', 7]", "stop must be texts that are not empty, not 7"),
        ("sampling = 3\n", r"sampling is a table, written \[sampling\]"),
        ("profiles = 3\n", r"a profile is a table"),
        ("[profiles.code]\ntempo = 3\n", "profile code: there is no setting 'tempo'"),
        ("[ui.keys]\nstop = 3\n", "ui.keys"),
        ("[speculation]\np-min = 2\n", "p-min must be between 0 and 1, not 2"),
        ("[speculation]\ndraft-min = 20\n", "draft-min 20 is above draft-max 16"),
        ("a = " + "[" * 5000, "not valid TOML|nested too deeply"),
        ("seed = " + "9" * 400, "seed must be between .*, not 9{60}…"),
        ("temperature = " + "9" * 400, "temperature must be a number, not 9{60}…"),
        ("seed = " + "9" * 5000, "a number in it has thousands of digits"),
        ("seed = 0x" + "f" * 9000, "seed must be between .*, not so large a number"),
        ("temperature = 0x" + "f" * 9000, "temperature must be a number, not so large a number"),
    ],
    ids=lambda value: value[:40],
)
def test_a_file_that_cannot_be_used_gets_a_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence) as caught:
        load(path=write(tmp_path, text), environ={})
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


def test_an_unknown_profile_gets_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no profile 'cood'; did you mean code"):
        load(path=write(tmp_path, "[profiles.code]\n"), profile="cood", environ={})


def test_a_file_that_cannot_be_read_gets_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^The configuration file .*missing.toml cannot be read: No such file"):
        load(path=tmp_path / "missing.toml", environ={})
    with pytest.raises(UsageError, match=r"is larger than 1 MB: no configuration is, so give the right file"):
        load(path=write(tmp_path, "#" * (LARGEST_FILE + 1)), environ={})


def test_a_bad_variable_is_named() -> None:
    with pytest.raises(UsageError, match=r"^env SPECTUI_TOP_K: top-k must be a whole number, not 'many'"):
        load(environ={"SPECTUI_TOP_K": "many"})


def test_nearest_suggests_nothing_if_nothing_is_near() -> None:
    assert nearest("--port", ["--temp", "-m"]) == "."
    assert nearest("--tmp", ["--temp", "-m"]) == "; did you mean --temp?"


@pytest.mark.parametrize(
    ("line", "stop"), [('stop = "User:"', ("User:",)), ('stop = ["a", "\\n"]', ("a", "\n")), ("stop = []", ())]
)
def test_several_texts_are_a_list(tmp_path: Path, line: str, stop: tuple[str, ...]) -> None:
    (tmp_path / "c.toml").write_text(line)
    assert load(path=tmp_path / "c.toml", environ={}).knobs.stop == stop
    assert load(path=tmp_path / "c.toml", environ={"SPECTUI_STOP": "x"}).knobs.stop == ("x",)
