"""Lookups, variables, and commands beside the one that starts llama-server."""

from __future__ import annotations

import pytest

from spectui.profiles import llama_server, llama_swap
from spectui.profiles.command_line import NOT_USED
from spectui.profiles.imported import ENVIRONMENT, ONE_LENGTH, OTHER_YEARS, LeftOut


@pytest.mark.parametrize(
    ("flags", "length", "said"),
    [
        ("--spec-type ngram-simple --spec-ngram-simple-size-m 5", 5, []),
        ("--spec-type ngram-simple --spec-draft-n-max 9 --spec-ngram-simple-size-m 5", 5, []),
        ("--spec-type ngram-mod --spec-ngram-mod-n-max 7", 7, []),
        ("--spec-type ngram-simple,draft-simple --spec-ngram-simple-size-m 5", 5, []),
        ("--spec-type ngram-simple,draft-simple --spec-draft-n-max 5 --spec-ngram-simple-size-m 5", 5, []),
        ("--spec-type ngram-simple,draft-simple --spec-draft-n-max 3 --spec-ngram-simple-size-m 5", 3, [ONE_LENGTH]),
        ("--spec-type draft-simple --spec-ngram-simple-size-m 5", None, [NOT_USED]),
    ],
)  # fmt: skip
def test_the_length_of_a_lookups_drafts_is_draft_max(flags: str, length: int | None, said: list[str]) -> None:
    found = llama_server.read(f"llama-server -m /a {flags}").profiles[0]
    assert (found.settings.get("draft_max"), [each.reason for each in found.left_out]) == (length, said)


def test_variables_of_other_versions_are_named_as_what_they_are() -> None:
    text = "LLAMA_ARG_DRAFT_P_MIN=0.5 LLAMA_ARG_NO_REPACK=1 CUDA_VISIBLE_DEVICES=0 llama-server -m /a"
    found = llama_server.read(text).profiles[0]
    assert found.settings == {"model": "/a", "no_repack": "on"}, "this llama.cpp reads both forms of a switch"
    assert found.left_out == (
        LeftOut(OTHER_YEARS, "LLAMA_ARG_DRAFT_P_MIN=0.5"), LeftOut(ENVIRONMENT, "CUDA_VISIBLE_DEVICES=0"),
    )  # fmt: skip


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


@pytest.mark.parametrize(
    "before",
    ["sudo pkill llama-server", "sudo -n killall -9 llama-server", "sudo systemctl stop llama-server", "pkill -f llama-server",
     "env sudo docker rm llama-server", "llama-server --list-devices", "llama-bench -m /b.gguf", "scp a b:/bin/llama-server",
     "machinectl enable llama-server", "die 'llama-server is not there'", "x -e 'print \"llama-server (\"'", "llama-swap -c x",
     "jq '.a (' llama-server", "export LLAMA_ARG_HOST=0.0.0.0", "cd /opt/llama &&", "nice which llama-server"],
)  # fmt: skip
def test_what_starts_nothing_is_no_second_command(before: str) -> None:
    found = llama_server.read(f"{before}{'' if before.endswith('&&') else chr(10)} llama-server -m /a.gguf")
    assert found.profiles[0].settings == {"model": "/a.gguf"}


def test_a_container_that_sudo_starts_and_a_directory_in_a_line_without_a_shell() -> None:
    run = "run --rm -v /m:/models ghcr.io/ggml-org/llama.cpp:server -m /models/a.gguf"
    for start in ("sudo docker", "sudo -E podman container", "nice -n 5 docker"):
        assert llama_server.read(f"{start} {run}").profiles[0].settings == {"model": "/m/a.gguf"}
    swap = llama_swap.read("models:\n  a:\n    cmd: cd /opt/llama && ./llama-server -m a.gguf\n")
    assert swap.profiles[0].settings == {"model": "/opt/llama/a.gguf"}
