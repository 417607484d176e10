"""The same text in two vocabularies, updated incrementally: the target's tokens in the draft's, and back."""

from __future__ import annotations

from collections.abc import Sequence

from spectui.errors import SpectuiError
from spectui.speculation.drafters.cross_vocabulary.vocabulary_map import VocabularyMap, whole_characters
from spectui.speculation.drafters.text import CommonPrefix
from spectui.speculation.sampling import PENALTY_WINDOW

LOOK_BACK = 10
"""Tokens before the new text that are tokenised again with it, because it may merge with them."""

_SPACE = b" \n\t"


class RetokenisedContext:
    """The draft's own tokens for the target's text; only the text after a short look-back is tokenised again.

    Control tokens stay if the draft has one of that name, and are left out otherwise.
    """

    def __init__(self, vocabularies: VocabularyMap) -> None:
        self._map = vocabularies
        self._source: list[int] = []
        self._text = bytearray()
        self._lengths = [0]
        """Bytes of text before each target token, and in all."""
        self._tokens = list(vocabularies.draft.bos)
        self._ends = [0] * len(self._tokens)
        """Bytes of text up to and including each draft token."""
        self._since = [0] * len(self._tokens)
        """For a control token of the draft: number of target tokens up to and including it; else 0."""
        self._prefix = CommonPrefix()
        self.kept = 0
        """So many of the draft's tokens are as they were before the last call of `follow`."""

    def follow(self, tokens: Sequence[int]) -> list[int]:
        """The draft's tokens for these. O(new tokens) within a reply. The list changes with the next call."""
        vocabularies = self._map
        known = self._prefix.of(self._source, tokens)
        if known == len(self._source) == len(tokens):
            self.kept = len(self._tokens)
            return self._tokens
        length = self._lengths[known]
        del self._source[known:], self._lengths[known + 1 :], self._text[length:]
        kept, first = len(self._tokens), len(vocabularies.draft.bos)
        while kept > first and (self._ends[kept - 1] > length or self._since[kept - 1] > known):
            kept -= 1
        self.kept = kept = self._resumed(kept)
        del self._tokens[kept:], self._ends[kept:], self._since[kept:]
        for token in tokens[known:]:
            self._source.append(token)
            same = vocabularies.to_draft.get(token) if token in vocabularies.target.names else None
            is_bos = vocabularies.draft.bos and len(self._source) == 1 and token in vocabularies.target.bos
            if same is not None and not is_bos:
                self._spell()
                self._append(same, len(self._text), len(self._source))
            self._text += vocabularies.target.pieces[token]
            self._lengths.append(len(self._text))
        self._spell()
        return self._tokens

    def _resumed(self, kept: int) -> int:
        """Index to tokenise from: about LOOK_BACK tokens back, at the beginning of a word, after any control token."""
        index, first = kept, len(self._map.draft.bos)
        while index > first and not self._since[index - 1]:
            begin = self._ends[index - 1]
            back = kept - index
            if (back >= LOOK_BACK and word_begins(self._text, begin)) or (
                back >= 3 * LOOK_BACK and not _within_character(self._text, begin)
            ):
                break
            index -= 1
        return index

    def _spell(self) -> None:
        """Tokenise the text that has no draft token yet."""
        end = self._ends[-1] if self._ends else 0
        if end == len(self._text):
            return
        for token in self._map.spelled(bytes(self._text[end:])):
            end = min(end + len(self._map.draft.pieces[token]), len(self._text))
            self._append(token, end, 0)
        if self._ends:
            self._ends[-1] = len(self._text)  # skips bytes that the draft cannot spell

    def _append(self, token: int, end: int, since: int) -> None:
        self._tokens.append(token)
        self._ends.append(end)
        self._since.append(since)


class TargetRetokeniser:
    """The target's tokens for the text that the draft writes.

    The last token is held back, because more text may merge with it. It is released if the draft chose the same token and it
    ends in a letter: then more text rarely merges, and waiting would cost an evaluation of the draft in every round.
    """

    def __init__(self, vocabularies: VocabularyMap, tokens: Sequence[int]) -> None:
        """`tokens`: the target's, before the draft."""
        self._target = vocabularies.target
        pieces = vocabularies.target.pieces
        start = len(tokens)
        while start and pieces[tokens[start - 1]] and len(tokens) - start < 2 * LOOK_BACK:
            start -= 1
            if len(tokens) - start >= LOOK_BACK and pieces[tokens[start]][:1] in (b" ", b"\n"):
                break
        self._fixed = list(tokens[start:])
        self._text = b"".join(pieces[token] for token in self._fixed)
        self._covered = len(self._text)
        """Bytes of the text of the fixed tokens."""
        self._confidences: list[tuple[int, float]] = []
        self._held: list[int] = []
        self._position = len(tokens)
        self._recent = list(tokens[-PENALTY_WINDOW:])

    @property
    def position(self) -> int:
        """Position of the target's next token, as far as it is known."""
        return self._position + len(self._held)

    @property
    def history(self) -> list[int]:
        """The target's last tokens before that position: enough for the repeat penalty."""
        return self._recent + self._held

    def write(self, piece: bytes, p: float, joint_id: int) -> list[tuple[int, float]]:
        """Add a draft token; (target token, confidence) for each that is now certain.

        A target token's confidence is the product of those of the draft tokens that overlap it.
        """
        self._text += piece
        self._confidences.append((len(self._text), p))
        self._held = self._unfixed()
        if not self._held:
            return []
        settled = self._held[-1] == joint_id and piece[-1:].isalpha()
        return self._fix(len(self._held) - (not settled))

    def rest(self) -> list[tuple[int, float]]:
        """End the text: the tokens that were held back."""
        return self._fix(len(self._held))

    def _unfixed(self) -> list[int]:
        """The target's tokens after the fixed ones."""
        text = self._text[: whole_characters(self._text)]
        n = len(self._fixed)
        try:
            tokens = self._target.tokenize(text.decode())
            if tokens[:n] == self._fixed:
                return tokens[n:]
            # The target's tokens are not those of its tokenizer for this text.
            return self._target.tokenize(text[self._covered :].decode())
        except (UnicodeDecodeError, SpectuiError):  # the target may be unable to spell what the draft writes
            return []

    def _fix(self, n: int) -> list[tuple[int, float]]:
        out = []
        for token in self._held[:n]:
            begin, end = self._covered, self._covered + len(self._target.pieces[token])
            p, start = 1.0, 0
            for stop, confidence in self._confidences:
                if start < end and stop > begin:
                    p *= confidence
                start = stop
            out.append((token, p))
            self._covered = end
        self._fixed += self._held[:n]
        self._recent += self._held[:n]
        self._position += n
        del self._held[:n]
        return out


def word_begins(text: bytes | bytearray, at: int) -> bool:
    """Whether a run of spaces begins here. Tokenizers rarely merge across such a point."""
    return 0 < at < len(text) and text[at] in _SPACE and text[at - 1] not in _SPACE


def _within_character(text: bytes | bytearray, at: int) -> bool:
    return at < len(text) and 0x80 <= text[at] < 0xC0
