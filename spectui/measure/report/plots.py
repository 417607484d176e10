"""Plots in files, by matplotlib (the extra `plots`). It is imported where a plot is drawn."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spectui.atomic import replacing
from spectui.errors import SpectuiError, UsageError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = (".svg", ".png")


def check_plot(file: Path) -> None:
    """Raise UsageError where a plot could not be written to this file: say so before anything is measured."""
    if file.suffix.lower() not in KINDS:
        raise UsageError(
            f"--plot writes {' or '.join(KINDS)}, so the name of its file ends in that, unlike {file.name!r}."
        )
    if not file.absolute().parent.is_dir():
        raise UsageError(f"--plot cannot write {str(file)!r}: there is no directory {str(file.parent)!r}.")
    if importlib.util.find_spec("matplotlib") is None:
        raise UsageError("--plot needs matplotlib: pip install 'spectui[plots]'.")


def new_figure(panels: int = 1) -> tuple[Figure, list[Any]]:
    """A figure with panels side by side, which need no display, and their axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4 * panels, 4.8), layout="constrained")
    return figure, list(figure.subplots(1, panels, squeeze=False)[0])


def save_plot(figure: Figure, file: Path) -> None:
    """Write the figure whole or not at all. Raises SpectuiError."""
    try:
        with replacing(file) as part:
            figure.savefig(part, format=file.suffix.lower()[1:])
            part.chmod(0o644)
    except OSError as error:
        raise SpectuiError(f"The plot {str(file)!r} could not be written: {error.strerror or error}.") from error
