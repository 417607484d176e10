"""A report for others has the figures of the runs, and nothing that is a person's own."""

import json
from dataclasses import asdict, replace

import pytest

from spectui.measure import shared
from spectui.measure.bench.settings import Setting
from spectui.measure.bench.summary import Summary, summarise
from spectui.measure.report import as_json
from tests.measure.bench.runs import FAST, SLOW, TARGET, a_run, elsewhere

OWN = ("alice", "secret", "10.0.0.7", "mybox", "firefox")
"""What nobody else is to read."""


def report(summary: Summary) -> str:
    return "\n".join(shared.text_lines(summary, 1000))


def private_runs() -> list:
    """Runs of two own prompts and a built-in one, all of whose fields hold something own."""
    speeds = {TARGET: 10.0, FAST: 20.0, replace(SLOW, draft="/home/alice/d.gguf"): 15.0}
    return [
        elsewhere(
            replace(
                a_run(setting, speed + number, number, prompt, text=f"digest of a secret {prompt}"),
                prompt_text=f"secret {prompt}",
                busy="firefox uses 52 % of a core",
            ),
            target="/home/alice/t.gguf",
            kernels="Kernels: llama.cpp, because /home/alice/x/lib.so cannot be loaded: C:\\Users\\alice\\y.dll.",
            models="qwen2 1.5B Q8_0 (1.9 GB) on RPC[10.0.0.7:50052], drafted by 1 head of the target on CUDA0",
            devices="CUDA0 NVIDIA H100 (80.0 GB), RPC[10.0.0.7:50052] mybox:50052 (8.0 GB)",
            settings={
                "threads": 8, "stop": ["secret"], "rpc": "10.0.0.7:50052", "chat_template_kwargs": '{"name": "alice"}',
                "device": "CUDA0,RPC[10.0.0.7:50052]", "override_tensor": "exps=CPU", "flash_attn": "on", "gone": "secret",
                "tensor_split": "3,1",
            },
        )
        for setting, speed in speeds.items()
        for prompt in ("python", "my secret", "my other secret")
        for number in range(3)
    ]  # fmt: skip


def test_nothing_of_a_person_is_in_either_form() -> None:
    runs = shared.anonymous(private_runs())
    summary = summarise(runs)
    for text in (report(summary), as_json(summary, runs)):
        assert [word for word in OWN if word in text.lower()] == []


def test_the_figures_and_the_machine_are_in_both() -> None:
    before, runs = private_runs(), shared.anonymous(private_runs())
    summary = summarise(runs)
    text, whole = report(summary), json.loads(as_json(summary, runs))
    for fact in (
        "t.gguf drafted by draft.gguf", "on CUDA0", "NVIDIA H100 (80.0 GB)", "CPU: made up", "threads 8", "stop given",
        "override-tensor exps=CPU", "tensor-split 3,1", "flash-attn on", "own prompt 2", "another program uses 52 %",
        "lib.so cannot be loaded: y.dll",
    ):  # fmt: skip
        assert fact in text, fact
    assert [each["statistics"] for each in whole["runs"]] == [asdict(run.statistics) for run in before]
    assert [row.gain for row in summary.rows] == [row.gain for row in summarise(before).rows]


def test_two_drafts_of_one_name_and_two_servers_stay_two() -> None:
    settings = [Setting(draft=f"/{place}/d.gguf") for place in "ab"] + [Setting(server=f"mybox:{at}") for at in (80, 81)]
    runs = shared.anonymous([a_run(setting, 10.0) for setting in settings])
    assert [run.setting.label for run in runs] == ["d.gguf", "d.gguf 2", "server", "server 2"]


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("/usr/lib/a.so: no", "a.so: no"),
        ("~/m/a.gguf", "a.gguf"),
        ("/home/a b/m/a.gguf is", "a.gguf is"),
        ("C:\\Users\\me\\a.dll", "a.dll"),
        ("\\\\host\\share\\a.dll", "a.dll"),
        ("model 4/0/0.75, 12 t/s", "model 4/0/0.75, 12 t/s"),
        ("at https://me@host:80/x now", "at [address] now"),
    ],
)
def test_directories_and_addresses_go(text: str, clean: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/a b")
    run = shared.anonymous([elsewhere(a_run(TARGET, 1.0), kernels=text)])[0]
    assert run.conditions.kernels == clean


def test_no_runs_are_said() -> None:
    assert report(summarise([])) == "Nothing was measured."
