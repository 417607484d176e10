"""The ways in. A target takes any bytes and returns; what it raises, it has let through."""

import dataclasses
import json
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

from minijinja import TemplateError

from spectui import config
from spectui.chat.text.attachments import AttachmentError, PasteFolds
from spectui.engine.kept.replies import Replies
from spectui.errors import UsageError
from spectui.gguf_files import check as files
from spectui.gguf_files.catalogue import ModelCatalogue
from spectui.gguf_files.header import GgufHeader, read_header
from spectui.gguf_files.vocabulary import VocabularyDigest
from spectui.knobs import Knobs
from spectui.llama.tokens.rendering import Renderer
from spectui.paths import shipped
from spectui.profiles.file import ProfileFile
from spectui.profiles.formats import FORMATS
from spectui.store import database, export, library
from spectui.store.database import StoreError
from spectui.store.journal import Journal
from spectui.store.prompts import PromptHistory
from spectui.store.recovery.crash import take_crash
from spectui.text import TextStream, one_line, printable, safe
from spectui.ui.themes import read_themes
from tests.llama.ggufs import write_model
from tests.profiles.test_import import GUIDE, INI, SCRIPT, SWAP
from tests.store.journal_helpers import exchange, some_rounds, written


class Target(NamedTuple):
    """A way in, and bytes to begin with: as they come, or far from anything that would be refused at once."""

    run: Callable[[bytes], None]
    seeds: Callable[[], list[bytes]] = list


@cache
def home() -> Path:
    """A directory for this process's files."""
    return Path(tempfile.mkdtemp(prefix="spectui-fuzz-"))


def text(data: bytes) -> None:
    """A model's bytes, cut into tokens: the same text wherever they are cut, and nothing that a terminal acts on."""
    cut = data[0] % 5 + 1 if data else 1
    stream, whole = TextStream(), TextStream()
    pieces = "".join(stream.push(data[at : at + cut]) for at in range(0, len(data), cut))
    assert pieces == whole.push(data) == safe(pieces)
    printable(pieces).encode()
    assert all(sign.isprintable() or sign in "\n\t" or ord(sign) > 0x9F for sign in pieces)


def model(data: bytes) -> None:
    """A GGUF file, looked at before it is loaded and for the list of models."""
    path = home() / "model.gguf"
    path.write_bytes(data)
    files._read.cache_clear()
    said = ""
    try:
        files.check_file(str(path), "target")
    except files.ModelFileError as error:
        said = str(error)
    header = read_header(path)
    assert said.endswith(f"{header.problem}." if header.problem else "")
    assert header.problem == safe(header.problem) and header.architecture.isprintable()


def configuration(data: bytes) -> None:
    """A configuration file: as it is, one of its profiles, and with another profile saved into it."""
    path = home() / "config.toml"
    path.write_bytes(data)
    profiles = ProfileFile(path)
    with suppress(UsageError):
        config.load(path=path, environ={})
        for name in profiles.names():
            profiles.load(name)
        profiles.save("saved", Knobs(top_k=7))
        assert profiles.load("saved")["top_k"] == 7


def imports(data: bytes) -> None:
    """What llama-swap or llama-server is started with, in each format: what is read can be written into a configuration."""
    path = home() / "imported.toml"
    for form in FORMATS.values():
        with suppress(UsageError):
            for profile in form.read(data.decode("utf-8", "replace"), None).profiles:
                path.unlink(missing_ok=True)
                ProfileFile(path).write({"any": profile.settings})
                config.load(path=path, profile="any", environ={})


def theme(data: bytes) -> None:
    """A theme file; what is accepted can be made colours of."""
    directory = home() / "themes"
    directory.mkdir(exist_ok=True)
    (directory / "any.toml").write_bytes(data)
    themes, problems = read_themes([directory])
    assert len(themes) + len(problems) == 1 and all(problem == one_line(problem) for problem in problems)
    for each in themes:
        each.to_color_system().generate()


def template(data: bytes) -> None:
    """A chat template."""
    talk = [("user", "hi"), ("assistant", "{{ 7*7 }}"), ("user", "2+2")]
    with suppress(TemplateError, ValueError):
        Renderer(data.decode("utf-8", "replace"), {"bos_token": "<s>"}).rendered(talk)


def conversations(data: bytes) -> None:
    """The conversations' file, patched: opened or set aside, never lost without a word."""
    file = home() / "conversations" / "conversations.db"
    for old in file.parent.glob("*"):
        old.unlink()
    for suffix, content in good_database().items():
        patched = bytearray(content)
        for at in range(0, len(data) - 6, 7):  # where, and four bytes
            place = int.from_bytes(data[at : at + 3], "little") % max(1, len(patched))
            patched[place : place + 4] = data[at + 3 : at + 7]
        file.parent.mkdir(exist_ok=True)
        file.with_name(file.name + suffix).write_bytes(patched)
    with suppress(StoreError):
        for summary in library.summaries(file):
            kept = library.open_conversation(file, summary.id)
            assert "\x1b" not in export.markdown(kept) + export.document(kept)
    journal = Journal(file)
    exchange(journal, "after", some_rounds(1))
    journal.close()
    there = [each.title for each in library.summaries(file)] if not journal.notices else []
    assert "after" in there or journal.notices


@cache
def good_database() -> dict[str, bytes]:
    """Suffix -> bytes of a database with its log, neither of which is all."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "conversations.db"
        written(file)
        other = database.connect(file)  # keeps SQLite from folding the log in
        other.execute("SELECT count(*) FROM message").fetchone()
        exchange(journal := Journal(file), "third", some_rounds())
        journal.close()
        content = {suffix: file.with_name(file.name + suffix).read_bytes() for suffix in ("", "-wal")}
        other.close()
    return content


def replies(data: bytes) -> None:
    """Past replies as tokens."""
    path = home() / "model.gguf"
    path.write_bytes(b"GGUF")
    remembered = Replies(path, 1000)
    remembered._file.write_bytes(data)
    Replies(path, 1000).add([1, 2])
    assert Replies(path, 1000).automaton.tokens[-3:] == [1, 2, -1]


def crash(data: bytes) -> None:
    """What a run that died left behind."""
    run = home() / "runs" / "run-1"
    run.mkdir(parents=True, exist_ok=True)
    (run / "doing.json").write_bytes(data)
    (run / "log.txt").write_bytes(data)
    found = take_crash(run.parent)
    assert found is None or (found.sentence == safe(found.sentence) and "\n" not in found.sentence)


def prompts(data: bytes) -> None:
    """The prompts of earlier chats."""
    path = home() / "prompts.jsonl"
    path.write_bytes(data)
    history = PromptHistory(path)
    assert all(prompt.encode() is not None for prompt in history.load())
    history.add("one more")
    assert history.load()[-1:] == ["one more"] or (data and not data.endswith(b"\n"))


def catalogue(data: bytes) -> None:
    """What was remembered of the models' headers."""
    path = remembered_model()
    cache_file = home() / "models.json"
    cache_file.write_bytes(data)
    for header in ModelCatalogue([path.parent], cache_file).scan():
        assert isinstance(header.name + header.quantisation, str) and header.size + (header.n_ctx_train or 0) >= -(2**70)
        assert header.problem == safe(header.problem)


def remembered_model() -> Path:
    """A model whose size and time are those in what is remembered."""
    path = home() / "models" / "x.gguf"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"GGUF")
    os.utime(path, ns=(1, 1))
    return path


def _seed_catalogue() -> list[bytes]:
    path = remembered_model()
    header = GgufHeader(
        str(path), 4, "llama", "Q8_0", "1B", 512, False, VocabularyDigest("BPE", 9, digests="0123abcd" * 10), ""
    )
    return [json.dumps({"version": 4, "headers": [[str(path), 4, 1, dataclasses.asdict(header)]]}).encode()]


def attachment(data: bytes) -> None:
    """A file named in a prompt, and the prompt itself."""
    (home() / "any.txt").write_bytes(data)
    folds = PasteFolds()
    prompt = data.decode("utf-8", "replace")
    with suppress(AttachmentError):
        folds.expanded(f"@{home()}/any.txt")
    with suppress(AttachmentError):
        folds.expanded(folds.fold(prompt))


def _seed_model() -> list[bytes]:
    return [write_model(home() / "seed.gguf", merges=("a b",), strings={"general.size_label": "1B"}).read_bytes()]


def _seed_themes() -> list[bytes]:
    return [path.read_bytes() for path in sorted(shipped("themes").glob("*.toml"))]


def _seed_crash() -> list[bytes]:
    doing = {"stage": "decoding", "setup": {"model": "/m/t.gguf", "ctx_size": 9}, "when": 1.5}
    return [json.dumps(doing).encode(), b"GGML_ASSERT(x) failed\nFatal Python error: Aborted\n"]


TARGETS = {
    "text": Target(text, lambda: ["a\x1b[31mß日\u202e𝄞".encode(), b"\xf0\x9d\x84"]),
    "model": Target(model, _seed_model),
    "configuration": Target(configuration, lambda: [shipped("config.example.toml").read_bytes()[:4000],
                                                    b"[sampling]\ntop-k = 3\n[profiles.a]\np-min = 0.5\n"]),
    "imports": Target(imports, lambda: [each.encode() for each in (GUIDE, SWAP, SCRIPT, INI)]),
    "theme": Target(theme, _seed_themes),
    "template": Target(template, lambda: [b"{% for m in messages %}{{ m.role ~ m['content']|trim }}{% endfor %}"]),
    "conversations": Target(conversations, lambda: [b"\x00\x10\x00abcd"]),
    "replies": Target(replies, lambda: [b"\x01\0\0\0\xff\xff\xff\xff"]),
    "crash": Target(crash, _seed_crash),
    "prompts": Target(prompts, lambda: [b'"one"\n"two\\u00e9"\n']),
    "catalogue": Target(catalogue, _seed_catalogue),
    "attachment": Target(attachment, lambda: [b"see @/etc/hostname and @\"a b\" \\@", "[pasted 9 lines]ß".encode()]),
}  # fmt: skip
