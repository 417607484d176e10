"""`-hf` and `-hfd`: which file is fetched, and one sentence for each way in which it cannot be. The hub is a module of ours."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

import spectui.engine.session
from spectui.cli import root
from spectui.cli.models.hub import HubModel, choose, named
from spectui.errors import SpectuiError, UsageError
from tests.helpers.terminal import Terminal

from tests.cli.programs import one_sentence, spectui as program  # isort: skip
from tests.cli.test_run import ScriptedSession

FILES = (
    "README.md",
    "big-Q8_0.gguf",
    "big-Q4_K_M.gguf",
    "big-Q4_K_S.gguf",
    "big-mmproj-Q4_K_M.gguf",
    "BF16/big-BF16-00001-of-00002.gguf",
    "BF16/big-BF16-00002-of-00002.gguf",
)


class FakeHub(ModuleType):
    """In `huggingface_hub`'s place: one repository, the files that were fetched, and errors on demand."""

    def __init__(self, directory: Path) -> None:
        super().__init__("huggingface_hub")
        self.__path__ = []  # a package
        self.errors = ModuleType("huggingface_hub.errors")
        self.errors.RepositoryNotFoundError = type("RepositoryNotFoundError", (Exception,), {})
        self.errors.GatedRepoError = type("GatedRepoError", (self.errors.RepositoryNotFoundError,), {})
        self.directory = directory
        self.files: tuple[str, ...] = FILES
        self.fetched: list[str] = []
        self.cached: tuple[str, ...] = ()
        self.cached_before: tuple[str, ...] = ()
        self.listing: BaseException | None = None
        self.downloading: BaseException | None = None

    def model_info(self, repository: str) -> Any:
        if self.listing is not None:
            raise self.listing
        if repository != "user/big-GGUF":
            raise self.errors.RepositoryNotFoundError("404")
        return SimpleNamespace(siblings=[SimpleNamespace(rfilename=file) for file in self.files])

    def hf_hub_download(self, repository: str, file: str) -> str:
        if self.downloading is not None:
            raise self.downloading
        self.fetched.append(file)
        return str(self.directory / file)

    def scan_cache_dir(self) -> Any:
        files = [SimpleNamespace(file_path=self.directory / file) for file in self.cached]
        newest = SimpleNamespace(snapshot_path=self.directory, files=files, last_modified=2.0)
        old = self.directory / "old"
        before = [SimpleNamespace(file_path=old / file) for file in self.cached_before]
        older = SimpleNamespace(snapshot_path=old, files=before, last_modified=1.0)
        return SimpleNamespace(repos=[SimpleNamespace(repo_id="user/big-GGUF", revisions=[newest, older])])


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeHub:
    fake = FakeHub(tmp_path)
    monkeypatch.setitem(sys.modules, "huggingface_hub", fake)
    monkeypatch.setitem(sys.modules, "huggingface_hub.errors", fake.errors)
    return fake


class Recorded(ScriptedSession):
    """Notes what it was told to load."""

    setups: list[Any] = []  # noqa: RUF012

    def load(self, setup: Any) -> Any:
        self.setups.append(setup)
        return super().load(setup)


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> tuple[str, Any]:
    """(what was said, the set-up that was loaded if one was)"""
    monkeypatch.setattr(Recorded, "setups", [])
    monkeypatch.setattr(spectui.engine.session, "Session", Recorded)
    done = CliRunner().invoke(root, ["run", "-p", "hello", *arguments], prog_name="spectui")
    return done.output, Recorded.setups[0] if Recorded.setups else None


HEADS = ("mtp-big-BF16.gguf", "mtp-big-Q4_K_M.gguf", *FILES)
ASSISTANT = ("gemma-4-E2B-it-Q8_0.gguf", "gemma-4-E2B-it-assistant-BF16.gguf")
APART = ("UD/big-Q4_K_M.gguf", "MTP/mtp-big-Q8_0.gguf", "other/deep/mtp-other-Q4_K_M.gguf")
BIG = "-hf user/big-GGUF"


@pytest.mark.parametrize(
    ("arguments", "files", "fetched"),
    [
        (f"{BIG}:q8_0", FILES, ["big-Q8_0.gguf"]),
        ("--hf-repo user/big-GGUF:BF16", FILES, FILES[-2:]),  # all parts of a split model
        (BIG, HEADS, ["big-Q4_K_M.gguf", "mtp-big-Q4_K_M.gguf"]),
        (f"{BIG}:Q8_0", HEADS, ["big-Q8_0.gguf", "mtp-big-BF16.gguf"]),
        (f"{BIG} --drafter suffix", HEADS, ["big-Q4_K_M.gguf"]),
        (f"{BIG} -hfd user/big-GGUF:Q4_K_S", HEADS, ["big-Q4_K_M.gguf", "big-Q4_K_S.gguf"]),
        (f"{BIG} -md /m/small.gguf", HEADS, ["big-Q4_K_M.gguf"]),
        (f"{BIG}:BF16", HEADS, [*FILES[-2:], "mtp-big-BF16.gguf"]),  # above the directory of the parts
        (BIG, APART, APART[:2]),
        (BIG, ("eagle3-big-Q4_K_M.gguf", *FILES), ["big-Q4_K_M.gguf", "eagle3-big-Q4_K_M.gguf"]),
        (BIG, ("dflash-big-Q4_K_M.gguf", *FILES), ["big-Q4_K_M.gguf", "dflash-big-Q4_K_M.gguf"]),
        (BIG, ASSISTANT, ASSISTANT),
    ],
)
def test_a_target_is_fetched_with_its_parts_and_heads_and_with_a_draft_that_is_named(
    monkeypatch: pytest.MonkeyPatch, hub: FakeHub, arguments: str, files: tuple[str, ...], fetched: Sequence[str]
):
    hub.files = files
    _, setup = run(monkeypatch, *arguments.split())
    assert hub.fetched == list(fetched)
    assert setup.model == str(hub.directory / fetched[0])
    assert "-hfd" not in arguments or setup.draft == str(hub.directory / fetched[1])


@pytest.mark.parametrize(
    ("quant", "files", "chosen"),
    [
        ("", FILES, "big-Q4_K_M.gguf"),
        ("", ("b.Q5_0.gguf", "a.Q8_0.gguf"), "a.Q8_0.gguf"),
        ("Q4_K", ("a-Q4_K_M.gguf", "a-Q4_K.gguf"), "a-Q4_K.gguf"),
        ("Q8_0", ("a-Q8_0-imatrix.gguf", "a-Q8_0.gguf"), "a-Q8_0.gguf"),
        ("Q8_0", ("mtp-a-Q8_0.gguf", "a-Q8_0-with-MTP.gguf"), "a-Q8_0-with-MTP.gguf"),
        ("Q8_0", ("gemma-4-it-assistant-Q8_0.gguf", "gemma-4-it.Q8_0.gguf"), "gemma-4-it.Q8_0.gguf"),
        ("Q8_0", ("gemma-3-assistant-Q8_0.gguf",), "gemma-3-assistant-Q8_0.gguf"),  # a model of that name
        ("", ("a-EAGLE3-Q4_K_M.gguf", "imatrix_a.gguf", "model-Q6_K.gguf", "mmproj-a-Q4_K_M.gguf"), "model-Q6_K.gguf"),
        ("q4_0", ("Q4_0/model.gguf", "Q8_0/model.gguf"), "Q4_0/model.gguf"),
        ("", ("a-BF16.gguf", "a-Q4_0.gguf", "a-Q8_0.gguf"), "a-Q8_0.gguf"),
        ("", ("a-BF16.gguf", "a-Q2_K.gguf", "a-UD-Q4_K_XL.gguf", "a-Q6_K.gguf"), "a-UD-Q4_K_XL.gguf"),
        ("", ("a-IQ1_S.gguf", "a-Q2_K.gguf"), "a-Q2_K.gguf"),
        ("", ("model-imatrix.gguf", "model-q5_k_m.gguf"), "model-q5_k_m.gguf"),
        ("", ("a-Q6_K.gguf", "a-embedding-Q4_K_M.gguf"), "a-Q6_K.gguf"),
        ("", ("a-Q6_K.gguf", "a-draft-Q4_K_M.gguf"), "a-Q6_K.gguf"),
        ("", ("a-DRAFT-0.6B-Q4_0.gguf",), "a-DRAFT-0.6B-Q4_0.gguf"),  # a repository of drafts, for -hfd
    ],
)
def test_which_file(quant: str, files: Sequence[str], chosen: str):
    assert choose(files, HubModel("user/repo", quant)) == [chosen]


@pytest.mark.parametrize(
    ("quant", "files", "says"),
    [
        ("Q5_0", FILES, "user/repo has no Q5_0; it has BF16, Q4_K_M, Q4_K_S, Q8_0."),
        ("Q5_0", ("model.gguf",), "user/repo has no Q5_0; it has model.gguf."),
        ("", ("model.safetensors", "mmproj-F16.gguf"), "user/repo has no GGUF file to chat with: look for"),
    ],
)
def test_no_such_file(quant: str, files: Sequence[str], says: str):
    with pytest.raises(SpectuiError, match=says):
        choose(files, HubModel("user/repo", quant))


@pytest.mark.parametrize(
    "value", ["", "big", "user/", "user/repo:", "a/b/c", "user/re po", "../../etc", "a/..", "a/b..c", ".a/b", "a/b:a/b"]
)
def test_what_is_no_name_of_a_repository(value: str):
    with pytest.raises(UsageError, match="-hf takes USER/REPO or USER/REPO:QUANT"):
        named(value, "-hf")


def test_without_the_client_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    said, setup = run(monkeypatch, "-hfd", "user/big-GGUF")
    assert said == "spectui: -hfd needs the hub's client: pip install 'spectui[hub]'.\n"
    assert setup is None


@pytest.mark.parametrize(
    ("arguments", "error", "sentence"),
    [
        ("-hf user/other", "", "The hub has no repository user/other that you may see"),
        (BIG, "GatedRepoError", "user/big-GGUF is only for those who agree to its terms"),
        (BIG, "Network is unreachable\nmore", "The hub cannot be asked for user/big-GGUF (Network is unreachable), and nothing "
         "of it is in the cache: try again with a network."),
        (f"-m a.gguf {BIG}", "", "-m names a file and -hf a repository of the hub: give one of them."),
    ],
)  # fmt: skip
def test_a_repository_that_cannot_be_had_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, hub: FakeHub, arguments: str, error: str, sentence: str
):
    if error:
        hub.listing = getattr(hub.errors, error, OSError)(error)
    said, setup = run(monkeypatch, *arguments.split())
    assert said.startswith(f"spectui: {sentence}") and said.count("\n") == 1
    assert not hub.fetched and setup is None


def test_without_a_network_what_is_in_the_cache_is_used(monkeypatch: pytest.MonkeyPatch, hub: FakeHub):
    hub.listing, hub.cached = OSError("Network is unreachable"), FILES
    said, setup = run(monkeypatch, "-hf", "user/big-GGUF:Q8_0")
    assert setup.model == str(hub.directory / "big-Q8_0.gguf")
    assert said.startswith("spectui: The hub cannot be asked for user/big-GGUF: big-Q8_0.gguf is taken from the cache.\n")
    assert not hub.fetched, "the client would look in the newest revision alone"


def test_what_an_older_revision_had_is_found_in_the_cache(monkeypatch: pytest.MonkeyPatch, hub: FakeHub):
    hub.listing, hub.cached, hub.cached_before = (OSError("off"), ("big-Q8_0.gguf",), ("big-Q4_K_M.gguf", "big-Q8_0.gguf"))
    assert run(monkeypatch, "-hf", "user/big-GGUF")[1].model == str(hub.directory / "old" / "big-Q4_K_M.gguf")
    assert run(monkeypatch, "-hf", "user/big-GGUF:Q8_0")[1].model == str(hub.directory / "big-Q8_0.gguf")


@pytest.mark.parametrize(("error", "code"), [(OSError("the line broke"), 1), (KeyboardInterrupt(), 130)])
def test_a_download_that_ends_early_says_that_it_can_be_gone_on_with(
    monkeypatch: pytest.MonkeyPatch, hub: FakeHub, error: BaseException, code: int
):
    hub.downloading = error
    done = CliRunner().invoke(root, ["run", "-p", "hello", "-hf", "user/big-GGUF"], prog_name="spectui")
    said = done.output
    assert done.exit_code == code
    assert "the same command continues" in said and said.count("\n") == 1


def test_the_flag_wins_over_the_configuration(monkeypatch: pytest.MonkeyPatch, hub: FakeHub):
    monkeypatch.setenv("SPECTUI_MODEL", "/models/other.gguf")
    assert run(monkeypatch, "-hf", "user/big-GGUF")[1].model == str(hub.directory / "big-Q4_K_M.gguf")


def test_without_the_flags_the_client_is_not_even_imported(tmp_path: Path):
    (tmp_path / "huggingface_hub.py").write_text("raise SystemExit('imported')")
    done = program("run", "-p", "a", "-m", "no.gguf", env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert "There is no target model" in one_sentence(done, 1)


class Hub(ThreadingHTTPServer):
    """A hub with one file of 12 MB. `asked` has the first bytes that were asked for; it sends no more than `most` of them."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.data = os.urandom(12_000_000)
        self.asked: list[int] = []
        self.most = len(self.data)
        self.going = Event()


class Answers(BaseHTTPRequestHandler):
    server: Hub

    def log_message(self, *arguments: object) -> None:
        """Nothing."""

    def do_HEAD(self) -> None:
        """What a file is."""
        self.headed({"Content-Length": str(len(self.server.data))})

    def do_GET(self) -> None:
        """The list of files, or the file from the byte on that is asked for."""
        if self.path.startswith("/api/models/user/big-GGUF"):
            body = json.dumps({"id": "user/big-GGUF", "siblings": [{"rfilename": "big-Q4_K_M.gguf"}]}).encode()
            self.headed({"Content-Length": str(len(body))})
            self.wfile.write(body)
        elif "resolve" in self.path:
            start = int(self.headers.get("Range", "bytes=0-")[6:].partition("-")[0])
            self.server.asked.append(start)
            size = len(self.server.data)
            ranged = {"Content-Range": f"bytes {start}-{size - 1}/{size}"} if start else {}
            self.headed({"Content-Length": str(size - start), **ranged}, 206 if start else 200)
            self.wfile.write(self.server.data[start : self.server.most])
            if self.server.most < size:
                self.server.going.wait(60)
        else:
            self.send_error(404)

    def headed(self, headers: dict[str, str], status: int = 200) -> None:
        self.send_response(status)
        for name, value in {"ETag": '"0123"', "X-Repo-Commit": "a" * 40, **headers}.items():
            self.send_header(name, value)
        self.end_headers()


def test_a_download_shows_how_far_it_is_and_goes_on_after_a_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """With the client itself, since it once stopped going on."""
    with Hub() as hub:
        Thread(target=hub.serve_forever, daemon=True).start()
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{hub.server_port}")
        monkeypatch.setenv("HF_HOME", str(tmp_path))
        cache = tmp_path / "hub" / "models--user--big-GGUF"
        hub.most = 11_000_000
        try:
            with Terminal("run", "-p", "a", "-hf", "user/big-GGUF") as terminal:
                terminal.wait("how far it is", lambda: re.search(r"big-Q4_K_M.gguf: +\d+%.*/12.0M", terminal.text))
                terminal.wait("a part of it", lambda: sum(each.stat().st_size for each in cache.glob("blobs/*")))
                terminal.child.kill(signal.SIGKILL)
                terminal.end()
        finally:
            hub.going.set()
        hub.most = len(hub.data)
        with Terminal("run", "-p", "a", "-hf", "user/big-GGUF") as terminal:
            assert terminal.end(60) == 1 and "big-Q4_K_M.gguf" in terminal.text, "it is no model"
        first, then = hub.asked
        assert first == 0 < then
        (file,) = cache.glob("snapshots/*/big-Q4_K_M.gguf")
        assert file.read_bytes() == hub.data
        assert len(list(cache.glob("blobs/*"))) == 1
        hub.shutdown()


def test_the_pair_for_the_window_tells_how_far_it_is_and_goes_on_where_it_was_stopped(tmp_path: Path):
    """With the client itself, in a process of its own, which reads at its start where the hub is."""
    code = """
from spectui.cli.models.hub import fetch_pair
from spectui.errors import SpectuiError
told = []
def stop(there):
    raise SpectuiError("stopped")
try:
    fetch_pair("user/big-GGUF", "user/big-GGUF", stop)
except SpectuiError as error:
    print(error)
print(*fetch_pair("user/big-GGUF", "user/big-GGUF", told.append))
print(told == sorted(told), told[-1])
"""
    with Hub() as hub:
        Thread(target=hub.serve_forever, daemon=True).start()
        ours = {"HF_ENDPOINT": f"http://127.0.0.1:{hub.server_port}", "HF_HOME": str(tmp_path)}
        done = subprocess.run([sys.executable, "-c", code], env=os.environ | ours, capture_output=True, text=True, timeout=120)
        size, (first, then) = len(hub.data), hub.asked
        hub.shutdown()
    said, files, told = done.stdout.splitlines()
    assert said == "stopped" and first == 0 < then, "it went on"
    assert [Path(file).name for file in files.split()] == ["big-Q4_K_M.gguf"] * 2
    assert told == f"True {size}"
    assert not done.stderr
