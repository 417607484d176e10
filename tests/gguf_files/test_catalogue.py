"""The model catalogue finds each model of the machine once, and reads its header once."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from spectui.gguf_files import catalogue
from spectui.gguf_files.catalogue import ModelCatalogue, model_directories
from spectui.gguf_files.header import GgufHeader, read_header
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

    monkeypatch.setattr(catalogue, "read_header", reading)
    assert list(ModelCatalogue([models], cache).scan()) == first
    assert read == []
    write_model(models / "b.gguf", strings={"general.size_label": "7B"})
    (models / "a.gguf").unlink()
    again = ModelCatalogue([models], cache)
    assert [header.parameters for header in again.scan()] == ["7B"]
    assert read == ["b.gguf"]
    assert [row[0] for row in json.loads(cache.read_text())["headers"]] == [str(models / "b.gguf")]


@pytest.mark.parametrize(
    "content", ["", "[]", "{", '{"version": 5}', '{"version": 5, "headers": [[1]]}', "[" * 100_000,
                '{"version": 5, "headers": [[1, 2, 3, {}]]}', '{"version": 0, "headers": []}']
)  # fmt: skip
def test_a_damaged_cache_is_written_again(tmp_path: Path, content: str):
    cache = tmp_path / "models.json"
    cache.write_text(content)
    write_model(tmp_path / "a.gguf")
    assert names(ModelCatalogue([tmp_path], cache)) == ["a"]
    assert json.loads(cache.read_text())["version"] == 5


def test_the_catalogue_needs_no_llama_cpp():
    rooms = "spectui.gguf_files.catalogue, spectui.gguf_files.compatibility"
    code = f"import sys, {rooms}; print({{'llama_cpp', 'textual', 'numpy'}} & {{*sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.strip() == "set()"
