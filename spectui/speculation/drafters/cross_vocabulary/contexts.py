"""The same text in two vocabularies, kept up token by token: the target's tokens for the draft to read, and back."""

from __future__ import annotations

from collections.abc import Sequence

from spectui.speculation.drafters.cross_vocabulary.vocabulary_map import VocabularyMap, whole_characters
from spectui.speculation.evaluator import common_prefix
from spectui.speculation.sampling import PENALTY_WINDOW

LOOK_BACK = 10
"""Tokens before the new text that are tokenised again with it: it may merge with them."""

_SPACE = b" \n\t"


class TokenMappedContext:
    """The draft's tokens for the target's, one for one; a run of tokens that the draft lacks is spelled by its bytes."""

    def __init__(self, bridge: VocabularyMap) -> None:
        self._bridge = bridge
        self._source: list[int] = []
        self._ends: list[int] = []
        """Per target token: how many tokens of the draft spell the text up to it."""
        self._tokens: list[int] = list(bridge.draft.opening)

    def follow(self, tokens: Sequence[int]) -> list[int]:
        """The draft's tokens for these. O(what is new), besides one comparison. Read the list, don't keep it."""
        bridge, opening = self._bridge, self._bridge.draft.opening
        known = common_prefix(self._source, tokens)
        while known and self._source[known - 1] not in bridge.to_draft:
            known -= 1  # the run may go on
        del self._source[known:], self._ends[known:]
        del self._tokens[self._ends[-1] if self._ends else len(opening) :]
        run = b""
        for token in tokens[known:]:
            self._source.append(token)
            same = None if opening and token in bridge.target.opening else bridge.to_draft.get(token)
            if same is None:
                run += bridge.target.words[token]
            else:
                self._tokens += [*bridge.spelled(run), same]
                run = b""
            self._ends.append(len(self._tokens))
        self._tokens += bridge.spelled(run)
        return self._tokens


class RetokenisedContext:
    """The draft's own tokens for the text of the target's; only the text since a short look-back is tokenised again.

    Control tokens are kept where the draft has one of that name, and left out where it has none.
    """

    def __init__(self, bridge: VocabularyMap) -> None:
        self._bridge = bridge
        self._source: list[int] = []
        self._text = bytearray()
        self._lengths = [0]
        """Bytes of text up to each target token."""
        self._tokens = list(bridge.draft.opening)
        self._ends = [0] * len(self._tokens)
        """Bytes of text up to and with each token of the draft."""
        self._since = [0] * len(self._tokens)
        """For a control token of the draft: how many target tokens stand up to and with it, else 0."""

    def follow(self, tokens: Sequence[int]) -> list[int]:
        """The draft's tokens for these. O(what is new), besides one comparison. Read the list, don't keep it."""
        bridge = self._bridge
        known = common_prefix(self._source, tokens)
        if known == len(self._source) == len(tokens):
            return self._tokens
        length = self._lengths[known]
        del self._source[known:], self._lengths[known + 1 :], self._text[length:]
        kept, first = len(self._tokens), len(bridge.draft.opening)
        while kept > first and (self._ends[kept - 1] > length or self._since[kept - 1] > known):
            kept -= 1
        kept = self._resumed(kept)
        del self._tokens[kept:], self._ends[kept:], self._since[kept:]
        for token in tokens[known:]:
            self._source.append(token)
            same = bridge.to_draft.get(token) if token in bridge.target.names else None
            if same is not None and not (bridge.draft.opening and token in bridge.target.opening):
                self._spell()
                self._append(same, len(self._text), len(self._source))
            self._text += bridge.target.words[token]
            self._lengths.append(len(self._text))
        self._spell()
        return self._tokens

    def _resumed(self, kept: int) -> int:
        """Where to tokenise from: about LOOK_BACK tokens before, at the beginning of a word, behind any control token."""
        place, first = kept, len(self._bridge.draft.opening)
        while place > first and not self._since[place - 1]:
            begin = self._ends[place - 1]
            back = kept - place
            if (back >= LOOK_BACK and word_begins(self._text, begin)) or (
                back >= 3 * LOOK_BACK and not _within_character(self._text, begin)
            ):
                break
            place -= 1
        return place

    def _spell(self) -> None:
        """Tokenise the text that no token covers yet."""
        end = self._ends[-1] if self._ends else 0
        if end == len(self._text):
            return
        for token in self._bridge.spelled(bytes(self._text[end:])):
            end = min(end + len(self._bridge.draft.words[token]), len(self._text))
            self._append(token, end, 0)
        if self._ends:
            self._ends[-1] = len(self._text)  # bytes that the draft cannot spell are passed over

    def _append(self, token: int, end: int, since: int) -> None:
        self._tokens.append(token)
        self._ends.append(end)
        self._since.append(since)


class TargetRetokeniser:
    """What the draft writes, in the target's tokens.

    The last token is held back while more text could still merge with it. Not so where the draft chose the same token and
    it ends in a letter: a word rarely goes on then, and to wait would cost an evaluation of the draft in every round.
    """

    def __init__(self, bridge: VocabularyMap, tokens: Sequence[int]) -> None:
        """`tokens`: the target's, up to where the draft begins."""
        self._target = bridge.target
        words = bridge.target.words
        start = len(tokens)
        while start and words[tokens[start - 1]] and len(tokens) - start < 2 * LOOK_BACK:
            start -= 1
            if len(tokens) - start >= LOOK_BACK and words[tokens[start]][:1] in (b" ", b"\n"):
                break
        self._fixed = list(tokens[start:])
        self._text = b"".join(words[token] for token in self._fixed)
        self._covered = len(self._text)
        """Bytes of the text that the fixed tokens spell."""
        self._chances: list[tuple[int, float]] = []
        self._held: list[int] = []
        self._position = len(tokens)
        self._recent = list(tokens[-PENALTY_WINDOW:])

    @property
    def position(self) -> int:
        """Of the target's next token, as far as can be said."""
        return self._position + len(self._held)

    @property
    def history(self) -> list[int]:
        """The target's last tokens before that: enough of them for the repeat penalty."""
        return self._recent + self._held

    def write(self, word: bytes, p: float, label: int) -> list[tuple[int, float]]:
        """The draft writes a token of these bytes, confidence and label. (token, confidence) for each that is now settled.

        A token's confidence is the product of those of the draft's tokens that cover it.
        """
        self._text += word
        self._chances.append((len(self._text), p))
        self._held = self._behind()
        if not self._held:
            return []
        settled = self._held[-1] == label and word[-1:].isalpha()
        return self._fix(len(self._held) - (not settled))

    def rest(self) -> list[tuple[int, float]]:
        """The text ends here: the tokens that were held back."""
        return self._fix(len(self._held))

    def _behind(self) -> list[int]:
        """The target's tokens behind the fixed ones."""
        text = self._text[: whole_characters(self._text)]
        n = len(self._fixed)
        try:
            tokens = self._target.tokenize(text.decode())
            if tokens[:n] == self._fixed:
                return tokens[n:]
            # The target did not write as its tokenizer would have.
            return self._target.tokenize(text[self._covered :].decode())
        except UnicodeDecodeError:
            return []

    def _fix(self, n: int) -> list[tuple[int, float]]:
        out = []
        for token in self._held[:n]:
            begin, end = self._covered, self._covered + len(self._target.words[token])
            p, start = 1.0, 0
            for stop, chance in self._chances:
                if start < end and stop > begin:
                    p *= chance
                start = stop
            out.append((token, p))
            self._covered = end
        self._fixed += self._held[:n]
        self._recent += self._held[:n]
        self._position += n
        del self._held[:n]
        return out


def word_begins(text: bytes | bytearray, at: int) -> bool:
    """Does a space begin here, and no space go on? Tokenizers rarely merge over such a place."""
    return 0 < at < len(text) and text[at] in _SPACE and text[at - 1] not in _SPACE


def _within_character(text: bytes | bytearray, at: int) -> bool:
    return at < len(text) and 0x80 <= text[at] < 0xC0
