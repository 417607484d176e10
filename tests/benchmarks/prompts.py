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

OTHERS = {
    "dates": "List the years of this page with what happened in each, one a line.\n\n" + prompts.PAGE,
    "letter": "Write a letter to a landlord about a heating that has been broken for a week.",
    "quicksort": prompts.PROMPTS["quicksort"],
    "recipe": "Write a recipe for onion soup: first the ingredients, then numbered steps.",
    "sky": "Explain to a child of eight why the sky is blue and the sunset red.",
    "sql": "Write SQL that creates the tables of a library (books, readers, loans), and three queries on them.",
    "tests": "Write pytest tests for a function slugify(text) that makes a URL's part of a title.",
    "typos": "Correct the spelling of this text and return it: Teh shrinking of teh Aral Sea has ben called one of teh "
    "planet's worst enviromental disasters. Teh region's once-prosperous fishing industry has ben devastated, bringing "
    "unemployment and economic hardship. Teh water from teh diverted Syr Darya river is used to irrigate about two milion "
    "hectares of farmland.",
}
"""Prompts that no constant was chosen on before, recorded with spectui's kernels."""

WARM = ("letter", "recipe", "tests", "typos")
"""Those of them that were answered at temperature 0.8."""
