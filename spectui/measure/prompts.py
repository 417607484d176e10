"""Prompts of different kinds: drafting speeds up some much and others little. Tables show a kind's name."""

from __future__ import annotations

from pathlib import Path


def _text(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


PAGE = _text("page.txt")

CODE = _text("code.txt").rstrip("\n")
"""150 lines of a real file. They never change, so that speeds of versions of this program compare."""

USUAL = ("python", "toaster", "table", "story")
"""Names of the prompts that are answered unless a person says otherwise."""

PREDICT, SEED = 80, 1
"""Most tokens of a reply, and its seed, unless a person says otherwise."""

PROMPTS: dict[str, str] = {
    "python": "write snake game in python",
    "typescript": "write snake game in typescript",
    "swift": "write snake game in swift",
    "quicksort": "Write quicksort in Python, with comments.",
    "chess": "Tell me the rules of chess",
    "toaster": "How long does an 800 W toaster need to use one kWh? Think step by step.",
    "summary": f"Summarise this page in five sentences, quoting its figures.\n\n{PAGE}",
    "edit": "Rename the class `Token` to `EmittedToken` everywhere in this file and return the whole file, nothing else.\n\n"
    f"```python\n{CODE}\n```",
    "table": f"Write these planets as a Markdown table with a header.\n\n{_text('planets.txt')}",
    "story": "Write a short story about a lighthouse keeper who finds a message in a bottle.",
    "resources": "Write a story about the natural resources of Canada.",
    "poem": "Write a poem of four stanzas about the first snow in a mountain village.",
    "translation": "Translate into German: The library opens at nine. Whoever returns a book late pays ten cents a day. "
    "Children borrow films only with their parents. On Fridays an author reads from a new book, and afterwards there is tea "
    "for everyone.",
    "dialogue": "Write a dialogue in which a grandmother teaches her grandson to bake bread, and he asks why at every step.",
}
