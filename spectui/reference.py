"""The table of settings as people read it: `config.example.toml` and the README's reference.

`python -m spectui.reference` prints the README's table, `python -m spectui.reference example` the file. Tests hold
both to the settings.
"""

from __future__ import annotations

import sys

from spectui.config import SECTIONS, Setting, settings
from spectui.knobs import title

HEAD = """\
# spectui's settings. Every line that is commented out shows a default: remove the # to change it.
#
# A flag wins over a SPECTUI_* variable, that over the profile chosen with -P, that over this file.
# Paths start at this file's directory.
"""

TAIL = """\

# Keys, by the id that the list of keys (F1) shows.
[ui.keys]
#stop = "escape"

# A profile is chosen with -P NAME and holds any of the settings above.
[profiles.code]
#temperature = 0.2
#draft-max = 24
"""


def example() -> str:
    """The text of `config.example.toml`: every setting, commented out, with its default."""
    lines = [HEAD]
    for section in SECTIONS:
        lines.append(f"[{section}]\n")
        for row in settings():
            if row.spec.section == section:
                lines.append(f"# {explanation(row)}\n#{title(row.key)} = {literal(row)}\n")
        lines.append("\n")
    return "".join(lines).rstrip("\n") + "\n" + TAIL


def table() -> str:
    """The README's reference: a Markdown table with a row for each setting."""
    rows = ["| setting | flags | default | what it is |", "| --- | --- | --- | --- |"]
    for row in settings():
        flags = " ".join(f"`{flag}`" for flag in row.spec.flags)
        rows.append(f"| `{title(row.key)}` | {flags} | `{literal(row)}` | {explanation(row)} |")
    return "\n".join(rows) + "\n"


def explanation(row: Setting) -> str:
    """A setting's help and what it may be."""
    spec = row.spec
    if spec.choices:
        return f"{spec.help}: {', '.join(spec.choices)}"
    # Ranges that only keep absurd numbers out would say nothing to a reader.
    if spec.low is None or spec.high is None or spec.high >= 9999:
        return spec.help
    return f"{spec.help}; {spec.low:g} to {spec.high:g}"


def literal(row: Setting) -> str:
    """A setting's default as TOML writes it."""
    return f'"{row.default or ""}"' if row.kind is str else str(row.default)


if __name__ == "__main__":
    sys.stdout.write(example() if sys.argv[1:] == ["example"] else table())
