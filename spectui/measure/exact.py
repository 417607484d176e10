"""Does a pass over several tokens compute the bits of passes over one? Loading asks that of one set-up, and this of each way to
compute a model; of a server, whether its text depends on its drafts."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING

from spectui.engine.costs.files import EQUAL_SIZES
from spectui.engine.costs.measuring import Difference, compare, fill
from spectui.engine.events import Message
from spectui.engine.protocol import Session as AnySession
from spectui.errors import SpectuiError
from spectui.knobs import Knobs, Setup
from spectui.measure.bench.prompt_files import Prompt
from spectui.measure.prompts import PAGE
from spectui.measure.report import DASH, table
from spectui.speculation.evaluator import Interrupted

if TYPE_CHECKING:
    from spectui.engine.session import Session

SCHEMA = "spectui.exact/1"

_LEGEND = (
    "= are the bits of passes over one token each. Otherwise: by how much a logit differs at most, and after / how many of the "
    "pass's choices are others."
)


@dataclass(frozen=True)
class Row:
    """Passes of several sizes behind so many tokens. `where`: the devices, or the kernels of a CPU."""

    model: str
    where: str
    behind: int
    sizes: dict[int, Difference]
    why: str
    """Why the kernels are not spectui's, in a clause."""

    def cell(self, size: int) -> str:
        """What the table says of the passes of a size."""
        if (passes := self.sizes.get(size)) is None:
            return DASH
        return "=" if passes.equal else f"{passes.largest:.2g}" + (f" /{passes.changed}" if passes.changed else "")


@dataclass(frozen=True)
class Answer:
    """A server's reply: its tokens, how many were drafted, and what its text without drafts is, in words."""

    prompt: str
    tokens: int
    drafted: int
    text: str


def measure(session: Session, setup: Setup, lengths: Sequence[int], types: Sequence[str]) -> list[Row]:
    """The rows of the model, and of its copies in these types. Raises SpectuiError."""
    from spectui.llama.quantiser import quantise

    rows: list[Row] = []
    setup = replace(setup, draft=None, ctx_size=max(lengths) + 2 * max(EQUAL_SIZES), no_profile="on", strict="off")
    with tempfile.TemporaryDirectory(prefix="spectui-exact-") as directory:
        for kind in ("", *types):
            file = Path(directory, f"{kind}.gguf") if kind else Path(setup.model or "")
            if kind:
                quantise(Path(setup.model or ""), file, kind)
            for way in _ways(replace(setup, model=str(file))):
                info = session.load(way).target
                where = info.kernels if info.devices in ((), ("CPU",)) else " and ".join(info.devices)
                if (info.description, where) not in {
                    (row.model, row.where) for row in rows
                }:  # spectui's kernels cannot be used everywhere
                    why = info.kernels_why if way.gpu_layers == 0 and way.kernels != "llama.cpp" else ""
                    rows += (Row(info.description, where, *passes, why) for passes in _passes(session, lengths))
    return rows


def _ways(setup: Setup) -> Iterator[Setup]:
    """The set-up with each kind of kernels on the CPU, and where it puts layers on GPUs as it is."""
    from spectui.llama.devices.listing import list_devices, offloading

    for kernels in ("auto", "llama.cpp") if setup.kernels == "auto" else (setup.kernels,):
        yield replace(setup, gpu_layers=0, kernels=kernels)
    if offloading(list_devices()) and setup.gpu_layers != 0:
        yield setup


def _passes(session: Session, lengths: Sequence[int]) -> Iterator[tuple[int, dict[int, Difference]]]:
    context, page = session.context_and_prompt([Message("user", PAGE)])
    text = page * (context.n_ctx // len(page) + 1)
    try:
        for length in lengths:
            context.truncate(0)
            fill(context, text, length, lambda: False, float("inf"))
            yield length, compare(context, text, length, EQUAL_SIZES, lambda: False)
    except Interrupted:
        raise SpectuiError("The comparison was stopped.") from None
    finally:
        context.clear()


def ask(session: AnySession, setup: Setup, knobs: Knobs, prompts: Sequence[Prompt]) -> list[Answer]:
    """A server's replies at temperature 0, with drafts and without. Raises SpectuiError."""
    session.load(setup)
    answers = []
    for prompt in prompts:
        replies = []
        for drafter in ("auto", "off"):
            session.knobs = replace(knobs, temperature=0.0, drafter=drafter)
            session.begin_cold()
            replies.append(session.generate(prompt.messages))
        one, other = (reply.text for reply in replies)
        drafted, without = (reply.statistics.drafted for reply in replies)
        if without or not drafted:
            text = f"cannot be told: {'it drafts all the same' if without else 'nothing was drafted'}"
        else:
            same = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
            text = "the same" if one == other else f"another from character {same + 1} on"
        answers.append(Answer(prompt.name, replies[0].statistics.emitted, drafted, text))
    return answers


def text_lines(rows: Sequence[Row], width: int) -> Iterator[str]:
    """A table of the rows of each model; sentences are wrapped to this width."""
    for model in dict.fromkeys(row.model for row in rows):
        heads = ["kernels or device", "behind", *map(str, EQUAL_SIZES)]
        cells = [[row.where, str(row.behind), *map(row.cell, EQUAL_SIZES)] for row in rows if row.model == model]
        yield from (model, "", *table([heads, *cells], width), "")
    for why in dict.fromkeys(row.why for row in rows if row.why):
        yield from wrap(f"spectui's kernels are not compared: {why}.", width)
    yield from wrap(_LEGEND, width)


def answer_lines(answers: Sequence[Answer], width: int) -> Iterator[str]:
    """A table of the answers."""
    rows = [[answer.prompt, str(answer.tokens), str(answer.drafted), answer.text] for answer in answers]
    return table([["prompt", "tokens", "drafted", "text without drafts"], *rows], width)
