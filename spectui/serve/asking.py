"""What a server asks its engine's session beside replies. Called in the engine's thread, or in its process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from spectui.errors import SpectuiError
from spectui.serve.tools import FORMS

if TYPE_CHECKING:
    from spectui.engine.session import Session


def about(session: Session) -> tuple[str, dict[int, str]]:
    """The loaded model's chat template, and the texts of its control tokens that begin a call."""
    target = session.pair_in_use.target
    named = {form.mark: target.tokenize(form.mark, special=True) for form in FORMS if form.mark}
    return target.template or "", {tokens[0]: mark for mark, tokens in named.items() if len(tokens) == 1}


def tokens(session: Session, text: str, special: bool, bos: bool) -> list[int]:
    """The tokens of a text. `special`: names of control tokens are those. `bos`: with what the vocabulary begins texts with."""
    target = session.pair_in_use.target
    return [*(target.added_bos if bos else []), *target.tokenize(text, special=special)]


def pieces(session: Session, ids: Sequence[int]) -> list[bytes]:
    """The text of each token, or its name. Raises SpectuiError for one that the model does not have."""
    target = session.pair_in_use.target
    if any(not 0 <= token < target.n_vocab for token in ids):
        raise SpectuiError(f"The model has {target.n_vocab} tokens, and one of these is none of them.")
    return [target.piece(token) or target.token_text(token).encode() for token in ids]


def infill(session: Session, before: str, after: str, begun: str, others: Sequence[tuple[str, str]], n_ctx: int) -> list[int]:
    """The tokens that ask for the text between two others, as much of them as fits. `begun`: what is there of it already.
    `others`: names and texts of other files, which come first.

    Raises SpectuiError for a model that was not trained to fill in.
    """
    target = session.pair_in_use.target
    if not target.fill_in:
        raise SpectuiError("The model was not trained to fill in: choose one such as Qwen2.5-Coder.")
    first, second, third, file = target.fill_in
    known = [
        token
        for name, text in others
        for token in [*([file] if file >= 0 else []), *target.tokenize(f"{name}\n{text}\n", special=False)]
    ]
    start = [*target.tokenize(before, special=False), *target.tokenize(begun, special=False)][-(n_ctx // 2) :]
    rest = target.tokenize(after, special=False)[: n_ctx // 4]
    return [*target.added_bos, *known[-(n_ctx // 8) :], first, *start, second, *rest, third]
