"""Will a pair pay that is not downloaded? The engine measures random weights of its shape; a table has its acceptance."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, NamedTuple

import tomli

from spectui.chat.figures.estimates import break_even
from spectui.config import nearest
from spectui.engine.events import Loaded
from spectui.errors import SpectuiError, UsageError
from spectui.gguf_files.random_model import QUANTS, Shape, bytes_of, write_model
from spectui.knobs import Setup
from spectui.measure import costs as report
from spectui.speculation.policies.cost_model import CostModel

if TYPE_CHECKING:
    from spectui.engine.session import Session

SCHEMA = "spectui.fit/1"

COPY = "pure Q4_0"
"""The type of a draft copy."""

_MOST_BYTES = 2 << 30
"""Of the layers that are measured. A model with more is measured with two layers and with as many as that is: each further one
takes the same."""

_FEW = 2
"""Every second layer has matrices of another type, so their number is even."""


class Model(NamedTuple):
    """A model by name, "qwen3-8b"."""

    name: str
    shape: Shape
    quant: str

    @property
    def bytes(self) -> int:
        """Of its weights."""
        return bytes_of(self.shape, self.quant, self.shape.layers)

    @property
    def measured(self) -> tuple[int, ...]:
        """The numbers of layers with which it is measured: all of them, or few and more."""
        output = bytes_of(self.shape, self.quant, 0)
        if self.bytes - output <= _MOST_BYTES:
            return (self.shape.layers,)
        of_few = bytes_of(self.shape, self.quant, _FEW) - output
        return _FEW, _FEW * max(2, _MOST_BYTES // of_few)

    @property
    def steps(self) -> float:
        """From the first number of layers to all of them, in steps from the first to the last."""
        first, last = self.measured[0], self.measured[-1]
        return (self.shape.layers - first) / (last - first) if last > first else 1.0


@cache
def _table() -> dict[str, Any]:
    return tomli.loads(Path(__file__).with_name("shapes.toml").read_text(encoding="utf-8"))


def known() -> dict[str, Shape]:
    """The shapes by name, "qwen3-8b"."""
    return {name: Shape(*row) for name, row in _table()["shapes"].items()}


def pair(name: str | None, target: str | None, draft: str | None, quant: str) -> tuple[Model, Model | None]:
    """The models of "qwen2.5-coder:7b+0.5b", or of the two names. Raises UsageError."""
    if name is not None:
        if target or draft:
            raise UsageError(f"Name the pair by {name}, or by --target and --draft, not by both.")
        target, _, draft = name.partition("+")
        family = target.partition(":")[0]
        draft = f"{family}-{draft}" if draft and f"{family}-{draft}".replace("-coder", "") in known() else draft
    if not target:
        raise UsageError("Name the target: --target qwen3-8b.")
    return _model(target, quant), _model(draft, quant) if draft else None


def _model(name: str, quant: str) -> Model:
    plain = name.lower().replace(":", "-").replace("-coder", "")  # whose shapes are those of Qwen2.5
    if plain not in known():
        raise UsageError(f"There is no shape of {name!r} here{nearest(plain, list(known()))}")
    if quant.upper() not in (quants := [name for name in QUANTS if name not in (COPY, "F32")]):
        raise UsageError(f"Weights of the type {quant} are not known here: choose one of {', '.join(quants)}.")
    return Model(plain, known()[plain], quant.upper())


def measure(session: Session, setup: Setup, target: Model, draft: Model | None) -> Loaded:
    """The pair as if it were loaded, with its costs. Raises SpectuiError, also where memory lacks for it."""
    from spectui.engine.loading.draft_copy import is_worth_using
    from spectui.engine.loading.placement import place_target
    from spectui.llama.cpu.quota import free_memory

    placed = place_target(replace(setup, model=None))
    free = sum(device.free for device in placed.computing) or free_memory()
    needed = target.bytes + (draft.bytes if draft else 0)
    if needed > free:
        raise SpectuiError(f"It cannot be told: the weights take {needed / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free.")
    if draft is not None and placed.on_cpu and setup.requantise_draft == "auto":
        copy = draft._replace(quant=COPY)
        draft = copy if is_worth_using(draft.bytes - copy.bytes, target.bytes) else draft
    steps: list[Loaded] = []
    with tempfile.TemporaryDirectory(prefix="spectui-fit-") as directory:
        for number in range(max(len(target.measured), len(draft.measured) if draft else 1)):
            files = replace(setup, model=_written(target, number, directory, "target"),
                            draft=_written(draft, number, directory, "draft") if draft else None)  # fmt: skip
            # Measured again: at first the new files are still being written to the disk.
            steps.append(report.load(session, files, again=True))
            if session.pair is not None:
                session.pair.forget_costs()
    loaded = steps[-1]
    info = loaded.draft._replace(path=draft.name, description=_description(draft)) if draft and loaded.draft else None
    return loaded._replace(
        target=loaded.target._replace(path=target.name, description=_description(target)),
        draft=info,
        costs=scaled([step.costs for step in steps if step.costs], target.steps, draft.steps if draft else 1.0),
    )


def _written(model: Model, step: int, directory: str, role: str) -> str:
    """Write the model with the layers of this step, and return its file.

    The file is named as a part of a split model, because loading copies no such draft into another type: `measure` has chosen
    the type already, by the sizes of the whole models.
    """
    layers = model.measured[min(step, len(model.measured) - 1)]
    file = Path(directory, f"{role}-{layers}-00001-of-00001.gguf")
    if not file.exists():
        write_model(file, model.shape, model.quant, layers)
    return str(file)


def _description(model: Model) -> str:
    layers, all_of_them = model.measured[-1], model.shape.layers
    part = "" if layers == all_of_them else f" from {layers} of {all_of_them} layers"
    return f"{model.name} {model.quant.removeprefix('pure ')}, {model.bytes / 1e9:.1f} GB{part}"


def scaled(measured: Sequence[CostModel], target: float, draft: float) -> CostModel:
    """The costs of whole models. `target`, `draft`: their steps from the first measurement on, the last is 1."""
    first, last = measured[0], measured[-1]

    def line(one: float, other: float, steps: float) -> float:
        return max(other, one + (other - one) * steps)  # more layers take no less

    passes = {n: line(first.passes[n], last.passes[n], target) for n in first.passes.keys() & last.passes.keys()}
    passes[1] = min(passes.values())  # as in `cost_model`: no pass takes less than one over one token
    return replace(
        last, passes=passes,
        per_row=line(first.per_row, last.per_row, target), per_pass=line(first.per_pass, last.per_pass, target),
        first=line(first.first, last.first, draft), next=line(first.next, last.next, draft),
    )  # fmt: skip


def acceptance(loaded: Loaded) -> tuple[float, float, str] | None:
    """The least and the most acceptance that is known of the pair, and who says so; None if none is."""
    names = f"{loaded.target.path} {loaded.draft.path}" if loaded.draft else ""
    return next(((*row["range"], row["source"]) for row in _table()["acceptance"] if row["pair"] == names), None)


def text_lines(loaded: Loaded, costs: CostModel, width: int) -> Iterator[str]:
    """What `spectui costs` would print of the pair, and what it would gain."""
    yield from report.text_lines(loaded, costs, width)
    if sentence := _gain(loaded, costs):
        yield from ("", *wrap(sentence, width))


def _gain(loaded: Loaded, costs: CostModel) -> str:
    """What the pair would gain; "" where the costs have said that drafts cannot pay, or that too little is known of them."""
    rounds = report.rounds_of(costs)
    if loaded.draft is None or break_even(rounds) is None:
        return ""
    if (known_range := acceptance(loaded)) is None:
        return "Whether this pair would pay cannot be told: its acceptance is not known here. At each the table has the speed."
    low, high, source = known_range
    slow, fast = (rounds.best(chance) for chance in (low, high))
    pays = "It would pay" if slow > 1 else "It would not pay" if fast <= 1 else "Whether it pays depends on the text"
    plain = 1 / costs.verify(1)
    return (
        f"{pays}: {slow:.2f} to {fast:.2f} times as fast as its target alone, {slow * plain:.1f} to {fast * plain:.1f} tokens "
        f"a second, where {low:.0%} to {high:.0%} of the drafted tokens are accepted ({source})."
    )


def json_object(loaded: Loaded, costs: CostModel, busy: str) -> dict[str, Any]:
    """The object that `spectui fit --json` prints."""
    known_range = acceptance(loaded)
    gains = [report.rounds_of(costs).best(chance) for chance in known_range[:2]] if known_range else None
    return report.json_object(loaded, costs, busy) | {
        "schema": SCHEMA, "acceptance": known_range[:2] if known_range else None,
        "source": known_range[2] if known_range else None, "gain": gains,
    }  # fmt: skip
