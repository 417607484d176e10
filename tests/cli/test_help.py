"""What --help says at 80 columns, and which flags a command takes."""

import re
import shlex
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner, Result

from spectui.cli import EXAMPLES, GROUPS, root
from spectui.config import settings
from tests.test_docs import parse


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(root, arguments, env={"COLUMNS": "80"})


def commands(group: click.Group = root, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of every command and group."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        yield (*before, name)
        if isinstance(command, click.Group):
            yield from commands(command, (*before, name))


WORDS = [(), *commands()]


def flags(text: str) -> list[str]:
    """The flags that a help lists, a line for each."""
    return re.findall(r"^  (-.*?)(?:  |$)", text, re.MULTILINE)


@pytest.mark.parametrize("words", WORDS, ids=" ".join)
def test_every_line_fits_and_no_clause_is_cut(words: tuple[str, ...]) -> None:
    text = invoke(*words, "--help").stdout
    lines = text.splitlines()
    assert lines[0].startswith("Usage: spectui") and max(map(len, lines)) <= 80
    assert len(lines) < 70 or "--help-all" not in text, "the short help is short"
    assert not re.search(r"[a-z,;]\.\.\.$", text, re.MULTILINE)


def test_the_commands_stand_in_groups_with_a_clause_each_and_three_examples() -> None:
    text = invoke("--help").stdout
    for heading, names in GROUPS.items():
        listed = text.split(f"\n{heading}:\n")[1].split("\n\n")[0].splitlines()
        assert [line.split()[0] for line in listed] == list(names)
    assert text.endswith("\nExamples:\n" + "".join(f"  {line}\n" for line in EXAMPLES))
    assert len(EXAMPLES) == 3
    for line in EXAMPLES:
        parse(shlex.split(line)[1:])


def test_the_help_of_the_chat_has_ten_flags_and_the_whole_one_all() -> None:
    short, whole = (flags(invoke("chat", option).stdout) for option in ("--help", "--help-all"))
    assert len(short) == 10 + len(["-h, --help", "--help-all"])
    assert all(len(re.findall("(?:^| )--?[a-z]", each)) <= 2 for each in short), "a short name and a long one"
    spelled = set(" ".join(whole).replace(",", "").split())
    assert {flag for row in settings() for flag in row.spec.flags} <= spelled


@pytest.mark.parametrize(
    ("command", "said"),
    [("bench", "(default 80)"), ("tune", "(default 80)"), ("run", "(-1: until the model ends it) (default -1)")],
)
def test_a_measurement_says_its_own_length_of_replies(command: str, said: str) -> None:
    text = " ".join(invoke(command, "--help-all").stdout.split())
    assert f"most tokens in a reply {said} " in text
    assert ("a new one for each reply" in text) == (command == "run")


@pytest.mark.parametrize(
    ("command", "sections"),
    [
        ("chat", "models devices speculation sampling ui"),
        ("run", "models devices speculation sampling"),
        ("bench", "models devices speculation sampling"),
        ("tune", "models devices speculation sampling"),
        ("costs", "models devices speculation"),
        ("devices", "models devices speculation"),
        ("config show", "models devices speculation sampling ui"),
        ("config export", "models devices speculation sampling"),
    ],
)
def test_a_command_lists_the_sections_that_it_uses(command: str, sections: str) -> None:
    listed = " ".join(flags(invoke(*command.split(), "--help-all").stdout))
    no_server = command in ("tune", "costs", "devices")
    for row in settings():
        uses = row.spec.section in sections.split() and not (no_server and row.key.startswith("server"))
        assert (re.search(rf"(^| ){row.spec.flags[0]}\b(?!-)", listed) is not None) == uses, row.key


def test_settings_that_a_command_does_not_use_are_named_and_left_out() -> None:
    done = invoke("costs", "--temp", "9", "--cache-reuse", "1", "-s", "1", "-m", "none.gguf")
    assert done.stderr.startswith(
        "spectui: spectui costs does not use these settings: --temp, -s. These flags of llama.cpp are not used: "
    )
    assert "There is no target model 'none.gguf'" in done.stderr


def test_what_is_no_text_is_not_written_to_standard_output() -> None:
    for line in ("draft make -m x --type q4_0 -o -", "bench --results -"):
        done = invoke(*line.split())
        assert (done.exit_code, "needs the name of a file" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("spectui re", ["replay"]),
        ("spectui chat --policy ", ["auto", "fixed", "expected"]),
        ("spectui chat -m x", ["x"]),
        ("spectui chat --no-h", ["--no-history"]),
    ],
)
def test_a_shell_completes_commands_flags_and_values(words: str, offered: list[str]) -> None:
    variables = {"_SPECTUI_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    done = CliRunner().invoke(root, prog_name="spectui", env=variables)
    assert [line.partition(",")[2] for line in done.stdout.splitlines()] == offered


def test_a_maker_of_man_pages_has_every_command_and_flag() -> None:
    """click-man goes through the attributes of click's objects."""
    groups = [root]
    for group in groups:
        assert [*group.commands] == group.list_commands(click.Context(group))
        groups += [each for each in group.commands.values() if isinstance(each, click.Group)]
    chat = root.commands["chat"]
    records = [each.get_help_record(click.Context(chat)) for each in chat.params if isinstance(each, click.Option)]
    assert records and None not in records
