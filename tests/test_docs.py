"""The README and docs/: what is generated is fresh, links lead somewhere, commands parse, quoted messages exist."""

import ast
import importlib.util
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import pytest
import tomli

from spectui.cli import root
from spectui.cli.options import SettingOption
from spectui.cli.report import report
from spectui.config import convert
from spectui.knobs import Knobs, Setup, specs, title
from spectui.profiles import exported
from spectui.profiles.command_line import llama_flags
from spectui.speculation.records import StopReason
from spectui.ui.dashboard.panel import PAGES as PAGES_OF_THE_PANEL
from tests.cli.test_report import LOADED, a_round, finished
from tests.generators import docs
from tests.generators.docs import PAGES, ROOT

NAMES = [page.relative_to(ROOT).as_posix() for page in PAGES]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
MESSAGE = re.compile(r"^\| `([^`]+)` \|", re.MULTILINE)
"""A message of the program, in the first column of a table."""
VARIABLE = "…"
QUOTES = r"['“”\"]"


def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def without_code(text: str) -> str:
    return CODE.sub("", FENCE.sub("", text))


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", read(page)), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def command_lines(text: str) -> Iterator[str]:
    """Every line of shell in a page: of code blocks without a language, and of code within sentences."""
    for language, block in FENCE.findall(text):
        if not language:
            yield from block.splitlines()
    yield from CODE.findall(MESSAGE.sub("|", FENCE.sub("", text)))


def commands(text: str) -> Iterator[list[str]]:
    """The words of every command in a page, without variables before it and what it is piped into."""
    for line in command_lines(text):
        if not re.match(r"([A-Z_]+=\S+ |git diff|printf)*[|\w./ ]*\b(spectui|make|python|pytest)\b(?!:)", line):
            continue
        for part in re.split(r"\s\|\s(?=\w)|\s\.\.\.", line):
            words = shlex.split(part, comments=True)
            while words and "=" in words[0]:
                words.pop(0)
            if words:
                yield words


def parse(words: list[str]) -> None:
    """Read a spectui command as the real command line does. Raises click.UsageError or SpectuiError."""
    command: click.Command = root
    context = click.Context(root, info_name="spectui", **root.context_settings)
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        found = command.get_command(context, words[0])
        assert found is not None, f"there is no command {words[0]}"
        command, words = found, words[1:]
        context = click.Context(command, parent=context, info_name=command.name)
    if isinstance(command, click.Group):
        assert words in ([], ["--help"], ["--version"])
        return
    if words in (["--help"], ["--help-all"]):
        return
    context = command.make_context(command.name, words, parent=context.parent)
    for option in command.params:
        if isinstance(option, SettingOption) and context.params.get(option.name or "") is not None:
            convert(option.name or "", context.params[option.name or ""], "flag")


@pytest.mark.parametrize("file", [file.relative_to(ROOT).as_posix() for file, _ in docs.files()])
def test_what_is_generated_is_fresh(file: str) -> None:
    fresh = dict(docs.files())[ROOT / file]
    assert read(ROOT / file) == fresh, "run: make docs"


def test_the_readme_is_short() -> None:
    assert len(read(ROOT / "README.md").splitlines()) <= 70


def test_the_speeds_in_the_readme_are_those_of_the_chart() -> None:
    alternative = next(text for text, file in re.findall(r"!\[(.*?)\]\((.*?)\)", read(ROOT / "README.md")) if "speed" in file)
    drawn = re.findall(r">([\d.]+)</text>", docs.chart())
    assert re.findall(r"\d+\.\d", alternative) == drawn and len(drawn) == 12


def test_every_page_is_in_the_index() -> None:
    links = LINK.findall(read(ROOT / "docs" / "README.md"))
    listed = {target.partition("#")[0] for target in links if not target.startswith("..")}
    pages = {page.relative_to(ROOT / "docs").as_posix() for page in PAGES if page != ROOT / "README.md"}
    assert pages - {"README.md"} == listed


@pytest.mark.parametrize("name", [*NAMES, "CHANGELOG.md"])
def test_links_and_anchors_exist(name: str) -> None:
    page = ROOT / name
    for target in LINK.findall(without_code(read(page))):
        if target.startswith(("http://", "https://")):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.is_relative_to(ROOT) and file.exists(), f"{name} links to {target}"
        assert not anchor or anchor in anchors(file), f"{name} links to {target}"


@pytest.mark.parametrize("name", [*NAMES, "SECURITY.md"])
def test_paths_of_the_repository_exist(name: str) -> None:
    text = re.sub(r"`[^`]+` at commit", "", FENCE.sub("", read(ROOT / name)))
    paths = {words for words in CODE.findall(text) if re.match(r"(spectui|tests)/\S*$", words)}
    assert {path for path in paths if not (ROOT / path).exists()} == set()


def test_the_picture_of_the_rooms_is_the_import_contract() -> None:
    text = read(ROOT / "docs" / "developers" / "architecture.md")
    picture = FENCE.findall(text[text.index("## The rooms") :])[0][1]
    shown = [room for line in picture.splitlines() for room in line.strip().split("  ")[0].split()]
    contract = tomli.loads(read(ROOT / "pyproject.toml"))["tool"]["importlinter"]["contracts"][0]["layers"]
    assert shown == contract


@pytest.mark.parametrize("name", [*NAMES, "SECURITY.md"])
def test_commands_parse(name: str) -> None:
    for words in commands(read(ROOT / name)):
        program, arguments = Path(words[0]).name, words[1:]
        if program == "spectui":
            try:
                parse(list(arguments))
            except Exception as error:
                pytest.fail(f"{name}: {shlex.join(words)}: {error}")
        elif program == "make":
            assert all(re.search(rf"^{word}:", read(ROOT / "Makefile"), re.MULTILINE) for word in arguments), words
        elif program == "python" and arguments[:1] == ["-m"]:
            assert importlib.util.find_spec(arguments[1]) is not None, words
        elif program == "pytest":
            assert all((ROOT / word).exists() for word in arguments if not word.startswith("-")), words


@cache
def known_flags() -> frozenset[str]:
    """Every flag of every command, and of llama.cpp where spectui accepts or refuses it."""

    def flags(command: click.Command, context: click.Context) -> Iterator[str]:
        for option in command.get_params(context):
            yield from (*option.opts, *option.secondary_opts)
        if isinstance(command, click.Group):
            for name in command.list_commands(context):
                inner = command.get_command(context, name)
                assert inner is not None
                yield from flags(inner, click.Context(inner, parent=context))

    theirs = (flag for name in ("switches", "values", "pairs", "models") for flag in llama_flags()[name])
    return frozenset((*flags(root, click.Context(root, **root.context_settings)), *theirs))


@pytest.mark.parametrize("name", [name for name in NAMES if name != "docs/developers/performance.md"])
def test_flags_that_are_named_exist(name: str) -> None:
    named = {words.split()[0] for words in CODE.findall(FENCE.sub("", read(ROOT / name))) if re.match("--?[a-zA-Z]", words)}
    benchmarks = {"--rounds"}
    assert {flag for flag in named if flag.rstrip("=") not in known_flags()} <= benchmarks


def text_of(node: ast.AST) -> str:
    """A text of the code without quotes, with … for what is put into it; "" for other expressions."""
    if isinstance(node, ast.JoinedStr):
        parts = (str(part.value) if isinstance(part, ast.Constant) else VARIABLE for part in node.values)
        return re.sub(QUOTES, "", "".join(parts))
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return re.sub(QUOTES, "", re.sub(r"\{[\w.-]*(:[^}]*)?\}", VARIABLE, node.value))
    return ""


@cache
def code() -> tuple[ast.AST, ...]:
    files = (ROOT / "spectui").rglob("*.py")
    return tuple(node for file in files for node in ast.walk(ast.parse(read(file))))


@cache
def documented(name: str) -> tuple[str, ...]:
    """The messages of a page, without quotes."""
    page = read(ROOT / "docs" / name)
    return tuple(re.sub(QUOTES, "", message) for message in MESSAGE.findall(page))


def pattern(message: str) -> re.Pattern[str]:
    parts = (part.strip().rstrip(".") for part in message.split(VARIABLE))
    return re.compile(".*".join(map(re.escape, parts)))


@pytest.mark.parametrize("name", ["troubleshooting.md", "drafting.md"])
def test_the_messages_of_a_page_are_the_codes(name: str) -> None:
    texts = "\n".join(filter(None, map(text_of, code())))
    assert [message for message in documented(name) if not pattern(message).search(texts)] == []
    assert documented(name)


def test_every_field_of_the_json_is_in_scripting() -> None:
    page = read(ROOT / "docs" / "scripting.md")
    fields = set(re.findall(r"`(\w+)`", page[page.index("## The JSON object") : page.index("## The chat line by line")]))
    made = report(LOADED, [a_round()], finished(a_round()))
    names = {*made, *made["model"], *made["stats"], *made["tokens"][0]}
    assert names <= fields
    assert {reason.value for reason in StopReason} <= fields


def test_every_setting_that_llama_server_lacks_is_on_the_page_about_exports() -> None:
    flags = {*exported.FLAGS, *exported.DRAFT_FLAGS, *exported.SPECULATION_FLAGS}
    lacking = {title(key) for owner in (Setup, Knobs) for key, _, _ in specs(owner) if key not in flags}
    assert {"strict", "policy"} <= lacking
    assert lacking <= set(re.findall(r"`([a-z-]+)`", read(ROOT / "docs" / "import-export.md")))


def test_the_window_page_knows_every_page_of_the_panel() -> None:
    text = (ROOT / "docs" / "window.md").read_text()
    table = text.split("| page | what it shows |")[1].split("\n\n")[0]
    assert re.findall(r"^\| (\S+) \|", table, re.MULTILINE) == list(PAGES_OF_THE_PANEL)
    assert f"Alt+1 to Alt+{len(PAGES_OF_THE_PANEL)} open its pages" in text


def test_the_decoder_as_a_library_prints_what_its_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    (_, program), (_, printed) = FENCE.findall(read(ROOT / "docs" / "developers" / "library.md"))
    exec(program, {})
    assert capsys.readouterr().out == printed


def test_no_two_keys_are_explained_alike() -> None:
    """A list of keys with the same words at each tells nobody which to press."""
    panel = (ROOT / "docs" / "window.md").read_text().split("| **panel** |")[1].split("<!-- end")[0]
    told = re.findall(r"^\| `[^|]+ \| ([^|]+) \|", panel, re.MULTILINE)
    assert len(told) > 10
    assert len(set(told)) == len(told)
