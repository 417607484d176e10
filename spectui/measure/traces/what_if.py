"""Estimates the time of a recorded chat under other settings, from recorded drafts, probabilities and times."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import groupby
from random import Random
from statistics import median
from typing import Any

from spectui.errors import SpectuiError, UsageError
from spectui.knobs import Knobs, spec_of, title
from spectui.measure.traces.chains import Draws, Known, known
from spectui.measure.traces.format import Entry
from spectui.measure.traces.machine import costs_at_load, fit_machine, seen_sizes
from spectui.measure.traces.replies import RecordedReply, replies
from spectui.measure.traces.simulation import Simulator
from spectui.speculation.records import Round
from spectui.speculation.statistics import Statistics, ratio

DRAWS = 9
"""Number of random draws for unrecorded values; the estimate is their median, and their range is printed."""

_LONG = 15_000
"""Tokens that all draws decode together."""

LITTLE = 1 / 3
"""If less than this share of the draft model's tokens was recorded, an estimate is a guess."""

_MOST_ERROR = 0.9
"""Relative error of the method from which its estimates mean nothing."""

KEYS = tuple(field.name for field in fields(Knobs) if spec_of(Knobs, field.name).section == "speculation")
"""The knobs that change speed and not the text."""


class WhatIfError(SpectuiError):
    """The trace does not tell what was asked."""


@dataclass(frozen=True)
class Estimate:
    """Decoding under some settings. Seconds are those of decoding; reading prompts is not in them."""

    settings: Mapping[str, Any]
    tokens: int
    seconds: float
    fastest_s: float
    """Of all draws, as `slowest_s`."""
    slowest_s: float
    acceptance: float | None
    tokens_per_pass: float | None
    recorded: float | None
    """Share of the draft model's tokens that the trace has; the others were drawn. None if it drafts nothing."""
    unseen: tuple[int, ...]
    """Sizes of pass, of one pass in fifty or more, whose times come from the table measured at load alone."""


@dataclass(frozen=True)
class WhatIf:
    """The measured and the estimated figures."""

    measured: Statistics
    replies: int
    again: Estimate
    """The settings as recorded, estimated in the same way: how far off the method is."""
    estimates: tuple[Estimate, ...]
    positions: int
    """Number of positions at which the trace has the draft model's draft."""
    text_positions: int
    """Of how many."""

    @property
    def error(self) -> float:
        """Estimated over measured seconds of the recorded settings, less 1."""
        return self.again.seconds / self.measured.decode_s - 1.0

    def tokens_per_s(self, estimate: Estimate, seconds: float | None = None) -> float:
        """An estimate's speed, corrected by the error of the estimate for the recorded settings."""
        return (1.0 + self.error) * estimate.tokens / (seconds or estimate.seconds)


def parse(text: str) -> dict[str, Any]:
    """Settings as in "draft-max=8,p-min=.5,policy=auto". Raises UsageError."""
    found: dict[str, Any] = {}
    for part in text.split(","):
        name, equals, value = (each.strip() for each in part.partition("="))
        key = name.replace("-", "_").removeprefix("__")
        if not equals or not value:
            raise UsageError(f"--what-if takes settings such as draft-max=8,p-min=.5,policy=auto; {part!r} is none.")
        if key in {field.name for field in fields(Knobs)} - {*KEYS}:
            raise UsageError(f"{title(key)} would change the text, which is recorded: --what-if takes {_names()}.")
        if key not in KEYS:
            raise UsageError(f"There is no setting {name!r} for --what-if: it takes {_names()}.")
        kind = type(getattr(Knobs(), key))
        try:
            found[key] = kind(value)
        except ValueError:
            raise UsageError(f"{title(key)} takes a number, not {value!r}.") from None
    replace(Knobs(draft_max=48), **found).checked()
    return found


def what_if(entries: Iterable[Entry], settings: Sequence[Mapping[str, Any]]) -> WhatIf:
    """Estimates for each of these settings; those that one does not name stay as recorded. Raises WhatIfError."""
    chat = [reply for reply in without_comparisons(replies(entries)) if reply.rounds]
    if not chat:
        raise WhatIfError("The trace has no reply, so there is nothing to estimate.")
    groups = [_Group(list(group)) for _, group in groupby(chat, key=lambda reply: id(reply.loaded))]
    measured = Statistics.of(each for reply in chat for each in reply.rounds)
    if not measured.decode_s:
        raise WhatIfError("The trace has no times, so there is nothing to estimate from.")
    for wanted in settings:
        for group in groups:
            group.must_know(wanted)
    found = WhatIf(
        measured,
        len(chat),
        _estimate(groups, {}),
        tuple(_estimate(groups, each) for each in settings),
        sum(group.draws.size for group in groups if group.has_draft),
        sum(
            len(each.tokens) for group in groups if group.has_draft for reply in group.replies for each in reply.rounds
        ),
    )
    if not -_MOST_ERROR < found.error < 1 / (1 - _MOST_ERROR) or not all(each.seconds for each in found.estimates):
        raise WhatIfError("The times in the trace fit no machine, so nothing can be estimated from them.")
    return found


def without_comparisons(chat: Iterable[RecordedReply]) -> Iterable[RecordedReply]:
    """Without replies that only decode the one before plainly, to be compared with it (A/B)."""
    before: RecordedReply | None = None
    for reply in chat:
        off = all(each.knobs.drafter == "off" for each in reply.rounds)
        again = before is not None and off and before.asked == reply.asked
        if not again or before is None or any(each.knobs.drafter == "off" for each in before.rounds):
            yield reply
            before = reply


class _Group:
    """Replies that the same loaded models wrote."""

    def __init__(self, chat: Sequence[RecordedReply]) -> None:
        self.replies = chat
        self.machine = fit_machine(chat)
        self.draws = Draws(chat)
        loaded = chat[0].loaded
        self.has_draft = loaded.draft is not None if loaded is not None else self.draws.size > 0
        self._n_ctx = loaded.target.n_ctx if loaded is not None else 1 << 20
        self._strict = loaded is not None and loaded.setup.strict == "on"
        self.seen = seen_sizes(chat)

    def must_know(self, settings: Mapping[str, Any]) -> None:
        """Raise WhatIfError if the model would draft, but none of its drafts are recorded."""
        if not self.has_draft or self.draws.size:
            return
        turns = {replace(each.knobs, **settings) for reply in self.replies for each in reply.rounds}
        # The automatic policy may leave the model out, as it did here.
        if any(each.drafter == "model" or (each.drafter == "auto" and each.policy != "auto") for each in turns):
            raise WhatIfError(
                "The draft model drafted nothing in this trace, so what it would draft is not known: "
                "record one with --drafter model, or ask for drafter=suffix or drafter=off."
            )

    def decode(self, settings: Mapping[str, Any], seed: int) -> tuple[list[Round], int, int]:
        """The rounds of all replies, how many tokens the draft model drafted, and how many of them were recorded."""
        random = Random(seed)
        found: list[Known] = [known(reply) for reply in self.replies]
        drawn = [
            self.draws.draw(reply, each, random) if self.has_draft and self.draws.size else None
            for reply, each in zip(self.replies, found, strict=True)
        ]
        recordings = [
            reply.recording(each.chains if each is not None else None)
            for reply, each in zip(self.replies, drawn, strict=True)
        ]
        simulator = Simulator(recordings, self.machine, costs_at_load(self.replies[0]))
        if self._strict:
            simulator.strategy.longest = max(each.pass_size for reply in self.replies for each in reply.rounds) - 1
        rounds: list[Round] = []
        asked = recorded = 0
        opening = ""
        for reply, recording, each in zip(self.replies, recordings, drawn, strict=True):
            prompts = [message.content for message in reply.asked.messages if message.role == "user"]
            if len(prompts) == 1 or prompts[:1] != [opening]:
                simulator.strategy.begin_conversation()
            opening = prompts[0] if prompts else ""
            turns = _Turns(reply, settings)
            decoded = simulator.decode(recording, turns, self._n_ctx)
            rounds += decoded
            if each is not None:
                for done in decoded:
                    models = [index for index, draft in enumerate(done.drafted) if draft.source == "model"]
                    asked += len(models)
                    recorded += sum(index < each.recorded[done.position - recording.prompt] for index in models)
        return rounds, asked, recorded


class _Turns:
    """The knobs by position in the text: as a person turned them, except the settings that are given."""

    def __init__(self, reply: RecordedReply, settings: Mapping[str, Any]) -> None:
        self._turns: list[tuple[int, Knobs]] = []
        for each in reply.rounds:
            knobs = replace(each.knobs, **settings)
            if not self._turns or knobs != self._turns[-1][1]:
                self._turns.append((each.position, knobs))

    def __call__(self, position: int) -> Knobs:
        return next((knobs for at, knobs in reversed(self._turns) if at <= position), self._turns[0][1])


def _estimate(groups: Sequence[_Group], settings: Mapping[str, Any]) -> Estimate:
    """The estimate of the draw whose time is the median of all."""
    runs = []
    # Over a long chat the draws differ less, and take longer.
    tokens = sum(len(each.tokens) for group in groups for reply in group.replies for each in reply.rounds)
    draws = min(DRAWS, max(3, _LONG // tokens))
    for seed in range(draws if any(group.has_draft and group.draws.size for group in groups) else 1):
        decoded = [group.decode(settings, seed) for group in groups]
        runs.append(
            (
                Statistics.of(each for rounds, _, _ in decoded for each in rounds),
                sum(asked for _, asked, _ in decoded),
                sum(recorded for _, _, recorded in decoded),
                _unseen(groups, [rounds for rounds, _, _ in decoded]),
            )
        )
    seconds = [statistics.decode_s for statistics, *_ in runs]
    statistics, asked, recorded, unseen = min(runs, key=lambda run: abs(run[0].decode_s - median(seconds)))
    return Estimate(
        dict(settings), statistics.emitted, statistics.decode_s, min(seconds), max(seconds), statistics.acceptance,
        statistics.tokens_per_pass, ratio(recorded, asked), unseen,
    )  # fmt: skip


def _unseen(groups: Sequence[_Group], decoded: Sequence[Sequence[Round]]) -> tuple[int, ...]:
    found: set[int] = set()
    for group, rounds in zip(groups, decoded, strict=True):
        sizes = [each.pass_size for each in rounds]
        found |= {size for size in set(sizes) - group.seen if sizes.count(size) * 50 >= len(sizes)}
    return tuple(sorted(found))


def _names() -> str:
    return ", ".join(map(title, KEYS))
