"""The built-in prompts that this project's benchmarks have results for."""

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
