"""The built-in prompts of which this project's benchmarks keep results, and a question about a file."""

from __future__ import annotations

from spectui.measure import prompts

PROMPTS = {kind: text for kind, text in prompts.PROMPTS.items() if kind not in ("quicksort", "resources")}

SHORT = {
    "capital": "What is the capital of France?",
    "sum": "What is 17 plus 25? Answer with the number alone.",
    "stable": "Is Python's list.sort stable? Answer yes or no.",
    "keyword": "Which keyword defines a function in Rust? Answer with one word.",
    "hello": "Say hello.",
}
"""Prompts whose replies the model ends by itself after a few tokens. They are recorded with that end."""

QUESTION = (
    "Which class in this file holds what a round has done? Answer with its name alone.\n\n"
    f"```python\n{prompts.CODE}\n```"
)
"""A long prompt with a short answer; no prompt of the table, which is about writing."""
