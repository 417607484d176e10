"""The table of settings as people read it: `config.example.toml`, and the help of flags.

`make docs` writes that file (`tests/generators/docs.py`); a test fails when it is stale.
"""

from __future__ import annotations

from spectui.config import SECTIONS, Setting, settings
from spectui.knobs import title

HEADINGS = {
    "models": "Models",
    "devices": "Devices and memory",
    "speculation": "Speculation",
    "sampling": "Sampling",
    "ui": "Interface",
}
"""The headings of the sections, in the help and in the documentation."""

HEAD = """\
# spectui's settings. Every line that is commented out shows a default: remove the # to change it.
#
# A flag wins over a SPECTUI_* variable, that over the profile chosen with -P, that over this file.
# Paths start at this file's directory.
"""

TAIL = """\

# Keys, by the id that the list of commands (F1) shows.
[ui.keys]
#stop = "escape"

# A profile is chosen with -P NAME and holds any of the settings above.
[profiles.code]
#temperature = 0.2
#draft-max = 24
"""


def example() -> str:
    """The text of `config.example.toml`: every setting, commented out, with its flags and its default."""
    lines = [HEAD]
    for section in SECTIONS:
        lines.append(f"[{section}]\n")
        for row in settings():
            if row.spec.section == section:
                lines.append(f"# {', '.join(row.spec.flags)}: {explanation(row)}\n#{title(row.key)} = {literal(row)}\n")
        lines.append("\n")
    return "".join(lines).rstrip("\n") + "\n" + TAIL


def explanation(row: Setting) -> str:
    """A setting's help, with its choices or its range."""
    spec = row.spec
    if spec.choices:
        return f"{spec.help}: {', '.join(spec.choices)}"
    # Ranges that only keep absurd numbers out would say nothing to a reader.
    if spec.low is None or spec.high is None or spec.high >= 9999:
        return spec.help
    return f"{spec.help}; {spec.low:g} to {spec.high:g}"


def literal(row: Setting) -> str:
    """A setting's default as TOML writes it."""
    if row.kind is tuple:
        return "[]"
    return f'"{row.default or ""}"' if row.kind is str else str(row.default)
