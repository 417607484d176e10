"""The records that every other room reads: what was drafted, what was emitted, and what a round cost.

The transcript's colours, the statistics, the inspector, the journal and the benchmarks all come from `Round`.
No room keeps a second set of counters.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Literal, NamedTuple

from spectui.knobs import Knobs

Origin = Literal["accepted", "correction", "bonus", "plain"]
Fate = Literal["accepted", "rejected", "ignored"]


UNKNOWN = -1
"""The id of a token that is not known."""


class StopReason(StrEnum):
    """Why a reply ended."""

    EOS = "eos"
    """The model ended it."""
    LIMIT = "limit"
    """`predict` tokens were emitted."""
    SERVER_LIMIT = "server_limit"
    """A server ended it at a limit of its own."""
    STOP = "stop"
    """A text of `stop` is complete."""
    CONTEXT = "context"
    """No cell of the context is left."""
    CANCELLED = "cancelled"
    """A person stopped it."""


ReasonKind = Literal[
    "draft", "measuring", "no room", "draft full", "strict", "budget", "unread", "uncertain", "unlikely", "no match",
    "p-min", "draft-min", "drafter off", "expected", "server drafts nothing", "server found nothing", "server does not tell",
]  # fmt: skip


class Reason(NamedTuple):
    """Why a policy drafted what it drafted in a round. The window words it.

    draft: `kept` of at most `limit` tokens were sent; auto expects `gain` times plain decoding's speed, others leave it None.
    expected: the same by the policy expected, `gain` in tokens per second.
    measuring: what a plain pass costs is not known yet. no room: the context, the reply's limit or draft-max leaves none.
    draft full: the draft model's own context, of `limit` tokens, has no room for this text.
    strict: not even a pass over two rows is bit-equal to plain decoding's. drafter off: the knob says so.
    budget: the loss budget does not allow another draft to fail.
    unread: the draft model would need `seconds` to read the text, which is more than it is expected to save.
    uncertain: the draft was not sent, because its first token's `expected_acceptance` was too low.
    unlikely: the model was not asked, because its `expected_acceptance` is below what is needed:
    `break_even.needed(RoundTimes(passes, drafting), rate)`, where `passes` and `drafting` are the times of the target's pass
    and of the draft model by draft length, in plain passes, and `rate` is the going rate in tokens per plain pass.
    no match: nothing here stood in the text before, and no model drafts.
    server drafts nothing: it was started without speculation. server found nothing: it did not draft in this round. server does
    not tell: whether it drafts.
    p-min: the next token's `confidence` was under p-min. draft-min: `drafted` tokens are fewer than draft-min.
    """

    kind: ReasonKind
    kept: int = 0
    limit: int = 0
    gain: float | None = None
    expected_acceptance: float | None = None
    rate: float | None = None
    passes: tuple[float, ...] = ()
    drafting: tuple[float, ...] = ()
    seconds: float | None = None
    drafted: int = 0
    confidence: float | None = None


class Candidate(NamedTuple):
    """A token that a drafter proposes.

    `p` is the drafter's confidence in 0..1: for a draft model the token's share among the 10 likeliest at temperature 1
    (llama.cpp's p-min meaning); for a suffix match the share of the times that the token followed, less for short matches.
    `match` is the length of that match in tokens, `seconds` what it took to draft this token. `ahead`: it was drafted while
    the target computed.
    """

    id: int
    p: float
    source: str
    match: int = 0
    seconds: float = 0.0
    ahead: bool = False

    @property
    def modelled(self) -> bool:
        """Whether the draft model, or the target's own heads, drafted it."""
        return self.source not in ("suffix", "grammar")

    @property
    def paid(self) -> bool:
        """Whether its round waited for the draft model to draft it."""
        return self.modelled and not self.ahead


class DraftToken(NamedTuple):
    """A drafted token and what became of it. Of a server's, `id` is `UNKNOWN`, `text` "" and `p` None where it was rejected.

    `ignored`: dropped before the target saw it (draft-min, or the policy found a shorter draft better), or never compared
    because the reply stopped before it.
    """

    id: int
    text: str
    p: float | None
    source: str
    fate: Fate


class Token(NamedTuple):
    """An emitted token, chosen by the target. `origin` says where it comes from.

    accepted: the drafter proposed it; correction: the target's choice at the first disagreement; bonus: the target's
    choice after a fully accepted draft; plain: a round without a draft.
    `position` is the absolute position in the context, `p_target` the target's probability at temperature 1.
    `text` is printable text, newline or tab, and may be empty (special tokens, or part of a character).
    Of a server's token `id` is `UNKNOWN` and `p_target` None, unless it tells them.
    `thought`: whether it is part of what the model thinks, or of a mark around that; None: the reply's rounds were
    lost, so the marks in its text tell it.
    """

    id: int
    text: str
    origin: Origin
    source: str | None
    round: int
    position: int
    p_draft: float | None
    p_target: float | None
    thought: bool | None = None


class Likeliest(NamedTuple):
    """The few tokens that the target found likeliest at each position of a round, best first.

    Packed, because a conversation has tens of thousands of positions: `ids` are int32 and `p` (at temperature 1) float32, both
    [positions * each]; `texts` has the same length, and its strings are shared between rounds.
    """

    each: int
    ids: bytes
    p: bytes
    texts: tuple[str, ...]

    def at(self, index: int) -> list[tuple[int, str, float]]:
        """(id, text, probability) of each of them at one of the round's positions, counted from 0."""
        span = slice(index * self.each, (index + 1) * self.each)
        return list(zip(array("i", self.ids)[span], self.texts[span], array("f", self.p)[span], strict=True))


Parts = tuple[tuple[str, float | None], ...]
"""(name, seconds) of what a time went into; None: that is not known."""


def parts(draft_s: float, verify_s: float, choose_s: float, whole_s: float) -> Parts:
    """The parts of a round's time, or of all rounds'."""
    other_s = max(0.0, whole_s - draft_s - verify_s - choose_s)
    known = (("draft", draft_s), ("verify", verify_s), ("sampling", choose_s), ("other", other_s))
    return known if verify_s else tuple((name, None) for name, _ in known)


@dataclass(frozen=True, slots=True)
class Round:
    """One target pass: the draft, what came of it, the knobs it ran under, and seconds spent.

    `seconds` is the time since the last round ended (of the first round: since it began), so that the seconds of a reply's
    rounds are all of its time; draft, verify and choose are parts of it, and `rest_s` is the remainder. A server does not tell
    its parts: then `verify_s` is 0, as no pass of a model is.
    """

    index: int
    position: int
    knobs: Knobs
    drafted: tuple[DraftToken, ...]
    tokens: tuple[Token, ...]
    draft_s: float
    verify_s: float
    choose_s: float
    seconds: float
    pass_size: int = 1
    """Tokens that the target evaluated in this pass; 0: they are the prompt's, and so is the time."""
    reason: Reason | None = None
    """What the policy did, and why."""
    likeliest: Likeliest | None = None
    """A position for each of `tokens`."""
    plain_s: float | None = None
    """Seconds that a target pass over one token would have taken here, as estimated in that round; None: unknown."""
    guessed: bool | None = None
    """Did the draft model draft ahead from the right text: was the draft accepted, and the token behind it guessed?

    None: it did not draft ahead.
    """
    saved_s: float = 0.0
    """Seconds of drafting ahead that were done when the round began."""

    @classmethod
    def of(
        cls, index: int, position: int, knobs: Knobs, drafted: Sequence[Candidate], sent: int,
        chosen: Sequence[tuple[int, float]], **measured: Any,
    ) -> Round:  # fmt: skip
        """The record of a pass that judged the first `sent` drafted tokens, without texts.

        `chosen`: the target's tokens, and its probability of each at temperature 1. `measured`: the other fields.
        """
        pairs = zip(chosen, drafted[:sent], strict=False)
        accepted = next((n for n, ((token, _), candidate) in enumerate(pairs) if token != candidate.id), min(len(chosen), sent))
        judged = sent if accepted < len(chosen) else accepted  # after an accepted end nothing was compared
        own: Origin = "plain" if not sent else "bonus" if accepted == sent else "correction"
        tokens = tuple(
            Token(token, "", "accepted", drafted[n].source, index, position + n, drafted[n].p, p)
            if n < accepted
            else Token(token, "", own, None, index, position + n, None, p)
            for n, (token, p) in enumerate(chosen)
        )
        fates: list[Fate] = [
            "accepted" if n < accepted else "rejected" if n < judged else "ignored" for n in range(len(drafted))
        ]
        drafts = tuple(
            DraftToken(candidate.id, "", candidate.p, candidate.source, fate)
            for candidate, fate in zip(drafted, fates, strict=True)
        )
        return cls(index, position, knobs, drafts, tokens, **measured)

    def written(self, text: Callable[[int], str], piece: Callable[[int], str], likeliest: Likeliest | None) -> Round:
        """The same round with its texts. `text` is asked of each emitted token, in order; `piece` of single tokens."""
        return replace(
            self,
            drafted=tuple(token._replace(text=piece(token.id)) for token in self.drafted),
            tokens=tuple(token._replace(text=text(token.id)) for token in self.tokens),
            likeliest=likeliest,
        )

    @property
    def rest_s(self) -> float:
        """Seconds that went neither into drafting nor verifying nor choosing."""
        return max(0.0, self.seconds - self.draft_s - self.verify_s - self.choose_s)

    @property
    def parts(self) -> Parts:
        """What its seconds went into."""
        return parts(self.draft_s, self.verify_s, self.choose_s, self.seconds)

    def count(self, fate: Fate) -> int:
        """Drafted tokens of this fate."""
        return sum(token.fate == fate for token in self.drafted)
