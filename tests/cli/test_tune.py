"""`spectui tune` on the demo pair."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from spectui.cli import root

pytestmark = pytest.mark.xdist_group("smollm2")


def test_it_finds_a_setting_and_saves_it_beside_the_comments_of_the_file(tmp_path, monkeypatch):
    from spectui.measure.bench.settings import Setting
    from spectui.measure.tune import search

    few = [Setting("model", "fixed", 4, 0, 0.4), Setting("suffix", "fixed", 4, 0, 0.5)]
    monkeypatch.setattr(search, "candidates", lambda drafts: few)
    file = tmp_path / "config.toml"
    file.write_text("# mine\ntemperature = 0.3  # warm\n")
    arguments = ["tune", "-c", "512", "-t", "1", "-n", "6", "--no-profile", "--prompts", "python", "--minutes", "0.05"]
    done = CliRunner().invoke(root, [*arguments, "--config", str(file), "--save", "tuned", "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["best"]["policy"] == "fixed" and found["replies"] >= 4
    text = file.read_text()
    assert text.startswith("# mine\ntemperature = 0.3  # warm\n") and "[profiles.tuned]" in text
    assert f"draft-max = {found['best']['draft_max']}" in text and 'policy = "fixed"' in text
    exported = CliRunner().invoke(root, ["config", "export", "--config", str(file), "--to", "llama-server", "tuned"])
    assert exported.exit_code == 0, exported.output
    assert ".gguf" in exported.stdout and "draft = " in text
