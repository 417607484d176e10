"""The model catalogue finds each model of the machine once, and reads its header once."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from spectui.chat.sentences import short_name
from spectui.gguf_files import catalogue, header
from spectui.gguf_files.catalogue import ModelCatalogue, model_directories, why_no_models
from spectui.gguf_files.header import GgufHeader, read_header
from tests.helpers.unprivileged import unprivileged
from tests.llama.ggufs import write_model


def names(found: ModelCatalogue, *beside: Path) -> list[str]:
    return [header.name for header in found.scan(beside)]


def test_it_searches_the_caches_of_other_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    snapshots = tmp_path / ".cache/huggingface/hub/models--user--repo/snapshots"
    blob = tmp_path / ".cache/huggingface/hub/models--user--repo/blobs/0123"
    for directory in (
        blob.parent,
        snapshots / "a",
        snapshots / "b",
        tmp_path / ".cache/llama.cpp",
        tmp_path / ".lmstudio/models/user/repo",
    ):
        directory.mkdir(parents=True)
    write_model(blob)
    (snapshots / "a" / "hub.gguf").symlink_to(blob)
    (snapshots / "b" / "hub.gguf").symlink_to(blob)
    write_model(tmp_path / ".cache/llama.cpp/cached.gguf")
    write_model(tmp_path / ".lmstudio/models/user/repo/studio.gguf")
    assert names(ModelCatalogue(model_directories({}))) == ["cached", "studio", "hub"]


def test_variables_move_the_caches(tmp_path: Path):
    moved = model_directories({"LLAMA_CACHE": str(tmp_path / "a"), "HF_HOME": str(tmp_path / "b")})
    assert {tmp_path / "a", tmp_path / "b" / "hub"} < set(moved)
    assert tmp_path / "c" in model_directories({"HF_HUB_CACHE": str(tmp_path / "c"), "HF_HOME": str(tmp_path / "b")})


def test_it_finds_neighbours_of_a_model_but_not_in_subdirectories(tmp_path: Path):
    (tmp_path / "below").mkdir()
    for name in ("target", "draft", "below/hidden"):
        write_model(tmp_path / f"{name}.gguf")
    assert names(ModelCatalogue(), tmp_path / "target.gguf") == ["draft", "target"]
    assert names(ModelCatalogue([tmp_path]), tmp_path / "target.gguf") == ["draft", "target", "hidden"]


def test_it_survives_cyclic_links_and_skips_later_parts(tmp_path: Path):
    write_model(tmp_path / "big-00001-of-00002.gguf")
    write_model(tmp_path / "big-00002-of-00002.gguf")
    (tmp_path / "gone.gguf").symlink_to(tmp_path / "nowhere")
    (tmp_path / "circle").symlink_to(tmp_path)
    assert names(ModelCatalogue([tmp_path, tmp_path / "no such place"])) == ["big"]


def test_it_leaves_a_directory_tree_with_too_many_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(catalogue, "MOST_ENTRIES", 3)
    (tmp_path / "below").mkdir()
    write_model(tmp_path / "a.gguf")
    for name in ("b", "c", "d"):
        write_model(tmp_path / "below" / f"{name}.gguf")
    assert names(ModelCatalogue([tmp_path])) == ["a"]


def test_a_scan_can_be_cancelled(tmp_path: Path):
    write_model(tmp_path / "a.gguf")
    assert list(ModelCatalogue([tmp_path]).scan(cancelled=lambda: True)) == []


def ollama(store: Path, name: str, digest: str = "sha256:ab12", **more: str) -> Path:
    """A model of Ollama's under this name, with the other layers that Ollama has. Returns its blob, which is to be written."""
    kinds = {"model": digest, "template": "sha256:cd34", "license": "sha256:ef56", **more}
    layers = [{"mediaType": f"application/vnd.ollama.image.{kind}", "digest": value} for kind, value in kinds.items()]
    manifest = store / "manifests" / name
    manifest.parent.mkdir(parents=True, exist_ok=True)
    manifest.write_text(json.dumps({"schemaVersion": 2, "layers": layers}))
    (store / "blobs").mkdir(exist_ok=True)
    for other in ("sha256-cd34", "sha256-ef56"):
        (store / "blobs" / other).write_text("{{ .Prompt }}")
    return store / "blobs" / digest.replace(":", "-")


@pytest.mark.parametrize(
    ("manifest", "name"),
    [
        ("registry.ollama.ai/library/qwen2.5-coder/1.5b", "qwen2.5-coder:1.5b"),
        ("registry.ollama.ai/someone/tuned/latest", "someone/tuned:latest"),
        ("hf.co/bartowski/SmolLM2-135M-Instruct-GGUF/Q8_0", "hf.co/bartowski/SmolLM2-135M-Instruct-GGUF:Q8_0"),
        ("registry.ollama.ai/library/na\x1bme\n\u202e/x", "name :x"),
    ],
)
def test_ollamas_models_have_their_names(tmp_path: Path, manifest: str, name: str):
    blob = write_model(ollama(tmp_path, manifest))
    catalogue = ModelCatalogue([tmp_path], tmp_path / "models.json")
    for found in (catalogue, ModelCatalogue([tmp_path], tmp_path / "models.json")):
        assert [(header.name, header.path, header.problem) for header in found.scan()] == [(name, str(blob), "")]
    assert catalogue.count() == 1
    assert names(ModelCatalogue(), blob) == [name], "beside the loaded one"
    assert short_name(str(blob)) == name, "in the window's title"


@pytest.mark.parametrize("place", [".ollama/models", "own", "service"])
def test_ollamas_directories_are_searched(tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    write_model(ollama(tmp_path / place, "registry.ollama.ai/library/qwen/1b"))
    found = model_directories({"OLLAMA_MODELS": str(tmp_path / "own")} if place == "own" else {})
    assert {Path("/usr/share/ollama/.ollama/models"), Path("/var/lib/ollama")} < {*found}
    found = [tmp_path] if place == "service" else [each for each in found if each.is_relative_to(tmp_path)]
    assert names(ModelCatalogue(found)) == ["qwen:1b"]


def test_of_ollamas_layers_only_models_are_listed_and_a_blob_once(tmp_path: Path):
    """Also where blobs are missing, a manifest is damaged, or an older version has written them."""
    library = "registry.ollama.ai/library"
    write_model(ollama(tmp_path, f"{library}/qwen/1b", projector="sha256:0987"))
    ollama(tmp_path, f"{library}/qwen/latest")
    write_model(ollama(tmp_path, f"{library}/old/1b", "sha256:0ld").with_name("sha256:0ld"))
    write_model(tmp_path / "blobs" / "sha256-0987")
    ollama(tmp_path, f"{library}/gone/1b", "sha256:9999")
    ollama(tmp_path, f"{library}/evil/1b", "../../../etc/passwd")
    for number, text in enumerate(("", "[]", "{", '{"layers": [1]}', '{"layers": {"a": 1}}', "[" * 100_000)):
        (tmp_path / "manifests" / library / "qwen" / f"damaged{number}").write_text(text)
    os.mkfifo(tmp_path / "manifests" / library / "qwen" / "pipe")
    catalogue = ModelCatalogue([tmp_path])
    assert names(catalogue) == ["old:1b", "qwen:1b"]
    assert catalogue.count() == 2


def test_a_link_to_nothing_is_not_counted(tmp_path: Path):
    model = write_model(tmp_path / "a.gguf")
    (tmp_path / "b.gguf").symlink_to(tmp_path / "nowhere")
    (tmp_path / "c.gguf").symlink_to(tmp_path / "c.gguf")
    (tmp_path / "d.gguf").symlink_to(model)
    (tmp_path / "e.gguf").hardlink_to(model)
    os.mkfifo(tmp_path / "f.gguf")
    assert ModelCatalogue([tmp_path]).count() == 1


def test_a_directory_that_a_person_names_in_vain(tmp_path: Path):
    file = tmp_path / "model.gguf"
    file.touch()
    (tmp_path / "empty").mkdir()
    (tmp_path / "secret").mkdir(mode=0)
    assert why_no_models(tmp_path) == ""
    assert why_no_models(tmp_path / "none").endswith("/none': check --models-dir.")
    assert why_no_models(file).endswith("is no directory: give --models-dir the one that it is in, or -m the file.")
    assert why_no_models(tmp_path / "empty").endswith("/empty' is empty.")
    assert "cannot be read" in why_no_models(Path("a\0b"))
    with unprivileged():
        assert why_no_models(tmp_path / "secret").endswith("cannot be read: Permission denied.")


def test_a_header_is_read_again_only_when_the_file_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    models, cache = tmp_path / "models", tmp_path / "cache" / "models.json"
    models.mkdir()
    write_model(models / "a.gguf")
    write_model(models / "b.gguf")
    first = list(ModelCatalogue([models], cache).scan())
    read: list[str] = []

    def reading(path: Path, cancelled: Callable[[], bool]) -> GgufHeader:
        read.append(path.name)
        return read_header(path, cancelled)

    monkeypatch.setattr(header, "read_header", reading)
    assert list(ModelCatalogue([models], cache).scan()) == first
    assert read == []
    write_model(models / "b.gguf", strings={"general.size_label": "7B"})
    (models / "a.gguf").unlink()
    again = ModelCatalogue([models], cache)
    assert [header.parameters for header in again.scan()] == ["7B"]
    assert read == ["b.gguf"]
    assert [row[0] for row in json.loads(cache.read_text())["headers"]] == [str(models / "b.gguf")]


@pytest.mark.parametrize(
    "content", ["", "[]", "{", '{"version": 9}', '{"version": 9, "headers": [[1]]}', "[" * 100_000,
                '{"version": 9, "headers": [[1, 2, 3, {}]]}', '{"version": 0, "headers": []}']
)  # fmt: skip
def test_a_damaged_cache_is_written_again(tmp_path: Path, content: str):
    cache = tmp_path / "models.json"
    cache.write_text(content)
    write_model(tmp_path / "a.gguf")
    assert names(ModelCatalogue([tmp_path], cache)) == ["a"]
    assert json.loads(cache.read_text())["version"] == 9


def test_the_catalogue_needs_no_llama_cpp():
    rooms = "spectui.gguf_files.catalogue, spectui.gguf_files.compatibility"
    code = f"import sys, {rooms}; print({{'llama_cpp', 'textual', 'numpy'}} & {{*sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.strip() == "set()"
