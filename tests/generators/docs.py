"""Write what is generated in docs/ and config.example.toml: `python -m tests.generators.docs`, which `make docs` runs.

A page holds generated text between `<!-- begin NAME (make docs) -->` and `<!-- end NAME -->`.
"""

import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

from textual.binding import Binding
from textual.dom import DOMNode

import spectui.ui
from spectui import reference
from spectui.chat.commands import SLASH
from spectui.ui.keys import format_key, group_of

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
GROUPS = ("chat", "reading", "prompt", "window", "messages", "panel", "steering")
"""The groups of keys that a page lists. Those of lists, sliders and other screens stand in the list that F1 opens."""
_MARKED = re.compile(r"(<!-- begin ([\w-]+) \(make docs\) -->\n)(.*?)(<!-- end \2 -->)", re.DOTALL)


def keys() -> str:
    """A table of the actions of these groups: their keys, what they do, and the id for `[ui.keys]`."""
    for module in pkgutil.walk_packages(spectui.ui.__path__, "spectui.ui."):
        importlib.import_module(module.name)
    groups: dict[str, dict[str, tuple[str, str]]] = {}
    for kind in _kinds(DOMNode):
        for each in kind.__dict__.get("BINDINGS", ()):
            if isinstance(each, Binding) and each.id and not each.id.startswith("prompt."):  # keys of any text box
                pressed = " ".join(f"`{format_key(key)}`" for key in each.key.split(","))
                group = group_of(kind, each) or "window"
                groups.setdefault(group, {})[each.id] = (pressed, each.tooltip or each.description)
    lines = ["| key | what it does | id |", "|---|---|---|"]
    for group in GROUPS:
        lines.append(f"| **{group}** | | |")
        lines += [f"| {pressed} | {what} | `{identity}` |" for identity, (pressed, what) in groups[group].items()]
    return "\n".join(lines)


def slash() -> str:
    """A table of the plain chat's commands, and a list of those that do what their keys do in the window."""
    rows, as_keys = ["| command | what it does |", "|---|---|"], []
    for command in SLASH.values():
        if command.keys and not command.plain:
            as_keys.append(f"`{command.usage}`")
        else:
            usage = command.usage.replace("|", "\\|")
            rows.append(f"| `{usage}` | {command.behind_slash} |")
    return "\n".join([*rows, "", f"These do what their [keys](window.md#keys) do: {', '.join(as_keys)}."])


GENERATORS = {"keys": keys, "slash": slash}


def filled(text: str) -> str:
    """A page with its generated parts made anew."""
    return _MARKED.sub(lambda found: f"{found[1]}\n{GENERATORS[found[2]]()}\n\n{found[4]}", text)


def files() -> Iterator[tuple[Path, str]]:
    """Every file that holds something generated, and what should be in it."""
    yield ROOT / "config.example.toml", reference.example()
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        if _MARKED.search(text):
            yield page, filled(text)


def _kinds(kind: type[DOMNode]) -> Iterator[type[DOMNode]]:
    for heir in sorted(kind.__subclasses__(), key=lambda each: (each.__module__, each.__name__)):
        if heir.__module__.startswith("spectui."):
            yield heir
        yield from _kinds(heir)


if __name__ == "__main__":
    for file, text in files():
        file.write_text(text, encoding="utf-8")
