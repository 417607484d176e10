"""llama.cpp's own tests of its server, run against `spectui serve`: which pass, which fail, and which do not apply.

`python -m tests.benchmarks.server_tests --models DIR [FILE ...]` needs the packages that its tests import, but for `wget`, and
the GGUF files of `MODELS` in DIR. Their tiny models come from the network, so other models take their places: what asserts the
texts or the numbers of tokens of theirs is relaxed to any text, and any number (`RELAXED`).
"""

import argparse
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.helpers.peers import SOURCE

FILES = (
    "basic", "completion", "chat_completion", "compat_anthropic", "compat_oai_responses", "tool_call", "infill", "tokenize",
    "template", "security", "metrics", "ignore_eos", "stream",
)  # fmt: skip

SMALL, BOS = "SmolLM2-135M-Instruct.Q4_1.gguf", "gemma-3-270m-q4_k_m.gguf"
CODER, LARGER = (f"qwen2.5-coder-{size}-instruct-q4_k_m.gguf" for size in ("0.5b", "1.5b"))
MODELS = {
    "ggml-org/test-model-stories260K": SMALL,
    "ggml-org/test-model-stories260K-infill": CODER,
    "bartowski/Qwen2.5-Coder-3B-Instruct-GGUF:Q4_K_M": LARGER,
}
"""Model of a test -> the file that takes its place."""

STORIES = r"Suddenly|going|princesses|Aside|Whillicter|couldn't|blue|Ann|Dad|little"
"""What their model of children's stories writes: any other text will do."""

RELAXED = {
    r"== n_prompt\b": "> 0",
    r"(assert .*) == n_cache\b": r"\1 >= bool(n_cache)",
    r"== batch_count\b": "> 0",
    r'life is"\*32': 'life is"*64',  # too long in tokens of theirs
    r"== n_predicted\b": "> 0",
    r"len\(res.body\[.content.\]\) > 10": "res.body['timings']['predicted_n'] > 0",  # the other model ends at once
    r"bosId = 1\b": "bosId = 2",
    r'"<s> " \+ prompt': "prompt",
    r"dict\(response.headers\)": "response.headers",  # their names in any case
}
"""Regular expression in their source -> what takes its place."""

THEIRS = "a model or a template of theirs"

NOT_APPLICABLE = {
    r"test_stream|cors_origins|multiple_addresses": "several models or addresses in one server",
    r"test_template\.|chat_template(?!.*mutual)|thinking_history|chatml|-This is not|call_slow": THEIRS,
    r"vision|image|media|embedding": "images or embeddings",
    r"no_ui|static_assets|cors_proxy": "the page of the server",
    r"server_slots|metrics_disabled|aliases_and_tags": "a flag that spectui does not have",
    r"completion_unified": "several sequences in one context",
    r"ignore_eos|logit_bias": "a bias of tokens, which is refused by its name",
    r"post_sampling|post_backend": "probabilities of sampling, which are refused by their name",
    r"multiple_choices|tokens_input|json_prompt_no": "several replies to a request, or a prompt that is an object: refused",
    r"\.test_completion_stream\[|response_fields": "`generation_settings` in every answer",
}
"""Regular expression for file and name of a test -> what it needs that is not here."""


def start(server: Any, timeout_seconds: int = 60) -> None:
    """Start `spectui serve` as the test wants its server: takes the place of their `ServerProcess.start`."""
    test, model = os.environ.get("PYTEST_CURRENT_TEST", ""), MODELS.get(server.model_hf_repo)
    if model is None:
        pytest.skip(THEIRS)
    if model == SMALL:
        model = BOS if "with_bos" in test else CODER if "tool" in test or "anthropic" in test else SMALL
    server.n_ctx, server.n_slots = (server.n_ctx or 4096) // (server.n_slots or 1), 1  # theirs share the context
    flags = {
        "--model": Path(os.environ["SERVER_TESTS_MODELS"], model), "--port": server.server_port, "--ctx-size": server.n_ctx,
        "--temp": server.temperature, "--seed": server.seed, "--predict": server.n_predict, "--alias": server.model_alias,
        "--ubatch-size": server.n_batch if server.n_batch and server.n_batch <= 512 else None, "--no-history": "on",
    }  # fmt: skip
    if server.api_key:
        flags["--api-key-file"] = Path(tempfile.gettempdir(), "server-tests-key")
        Path(flags["--api-key-file"]).write_text(server.api_key)
    if origin := re.search(r"test_cors_options\[([^-]+)-", test):
        flags["--cors"] = origin[1]
    arguments = [str(word) for flag, value in flags.items() if value is not None for word in (flag, value)]
    server.process = subprocess.Popen([sys.executable, "-m", "spectui", "serve", *arguments])
    sys.modules["utils"].server_instances.add(server)
    end = time.monotonic() + timeout_seconds
    while time.monotonic() < end and server.process.poll() is None:
        try:
            if server.make_request("GET", "/health").status_code == 200:
                return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError("The server does not start.")


class Results:
    """A plugin of pytest: "" for each case that passes, why another fails, or "-" and what it needs. By file and name."""

    def __init__(self) -> None:
        self.cases: dict[str, dict[str, str]] = defaultdict(dict)

    def pytest_collection_modifyitems(self, items: list[pytest.Function]) -> None:
        for item in items:
            values = item.callspec.params if hasattr(item, "callspec") else {}
            reasons = [why for pattern, why in NOT_APPLICABLE.items() if re.search(pattern, f"{item.path.stem}.{item.name}")]
            if values.get("template_override") or values.get("hf_repo", SMALL) not in (SMALL, *MODELS):
                reasons.append(THEIRS)
            if reasons:
                item.add_marker(pytest.mark.skip(reason=reasons[0]))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        path, _, name = report.nodeid.partition("::")
        file = Path(path).stem.removeprefix("test_")
        if isinstance(report.longrepr, tuple):
            self.cases[file][name] = "-" + report.longrepr[2].removeprefix("Skipped: ")
        elif report.when == "call" or report.failed:
            lines = [line[2:].strip() for line in str(report.longrepr).splitlines() if line.startswith("E ")]
            self.cases[file][name] = "" if report.passed else [*lines, "crashed"][0]


def patched(directory: Path) -> Iterator[str]:
    """Copy their tests, relaxed, and have their module start spectui. Gives the path of each file."""
    shutil.copytree(SOURCE / "tools" / "server" / "tests", directory, dirs_exist_ok=True)
    for file in directory.rglob("*.py"):
        text = file.read_text()
        for pattern, replacement in RELAXED.items():
            text = re.sub(pattern, replacement, text)
        file.write_text(text)
    sys.path.insert(0, str(directory))
    sys.modules["wget"] = ModuleType("wget")
    import utils  # type: ignore[import-not-found]

    exactly = utils.match_regex
    utils.ServerProcess.start = start
    utils.ServerPreset.load_all = lambda: None
    utils.match_regex = lambda regex, text: bool(text) if re.search(STORIES, regex) else exactly(regex, text)
    yield from (str(directory / "unit" / f"test_{name}.py") for name in FILES)


def report(cases: Mapping[str, Mapping[str, str]]) -> None:
    """Print the table, and the cases that do not pass."""
    print("\n| file | passes | fails | does not apply |\n| --- | --- | --- | --- |")
    for file in filter(cases.get, FILES):
        kinds = Counter(why[:1] if why[:1] in ("", "-") else "fails" for why in cases[file].values())
        print(f"| {file} | {kinds['']} | {kinds['fails']} | {kinds['-']} |")
    for file in filter(cases.get, FILES):
        for name, why in cases[file].items():
            if why:
                print(f"- {file} {name} {'does not apply' if why[0] == '-' else 'fails'}: {why.removeprefix('-')[:200]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, required=True, help="directory of the GGUF files")
    parser.add_argument("-k", default="", help="only these cases, as pytest's -k")
    parser.add_argument("files", nargs="*", choices=[*FILES, []], help="only these files")
    args = parser.parse_args()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        os.environ |= {"SERVER_TESTS_MODELS": str(args.models.resolve()), "PORT": str(listening.getsockname()[1])}
    results = Results()
    with tempfile.TemporaryDirectory() as directory:
        files = [file for file in patched(Path(directory)) if not args.files or Path(file).stem[5:] in args.files]
        os.chdir(directory)
        pytest.main(
            ["-q", "--tb=no", "-p", "no:cacheprovider", "-p", "no:xdist", "--rootdir", directory, "-k", args.k, *files],
            [results],
        )
    report(results.cases)


if __name__ == "__main__":
    main()
