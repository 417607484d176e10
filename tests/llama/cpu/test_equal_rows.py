"""A row's logits do not depend on how many rows a pass has, so no length of a draft can change a token."""

import random
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from spectui.knobs import Knobs
from spectui.llama import selftest
from spectui.llama.context import Context
from spectui.llama.cpu import reference_path
from spectui.llama.interrupt import Interrupt
from spectui.llama.model import Model
from spectui.speculation.choice import choose
from tests.helpers.smollm2 import SNAKE, setup

KNOBS = Knobs(temperature=0.7)
SEEDS = 40
PROMPTS, REPLY = (232, 488), 56  # from 257 and again from 513 tokens on there are more cells
LONGEST = 16


@pytest.fixture(scope="module")
def smol() -> Iterator[Model]:
    model = Model(setup().model or "", extra_buffers=selftest.run().extra_buffers)
    yield model
    model.close()


def opened(model: Model, ubatch: int = 512, equal_rows: bool = True) -> Context:
    """With two threads, because one thread leaves the cells of a row undivided."""
    return Context(
        model, Interrupt(), n_ctx=640, rows=LONGEST + 1, ubatch=ubatch, threads=2, flash_attn="on", equal_rows=equal_rows
    )


def plain_reply(context: Context, prompt: list[int], knobs: Knobs) -> tuple[list[int], list[NDArray[np.float32]]]:
    """The prompt and its reply, a token a pass, and the row that each token was chosen from."""
    tokens, rows = list(prompt), []
    context.evaluate(tokens[:-1], 0)
    for _ in range(REPLY):
        rows.append(context.evaluate(tokens[-1:], 1)[0].copy())
        tokens.append(choose(rows[-1], knobs, len(tokens), tokens)[0])
    return tokens, rows


def drafted_rows(context: Context, tokens: list[int], prompt: int, lengths: random.Random) -> list[NDArray[np.float32]]:
    """The rows of the same reply, as rounds with drafts of random lengths see them: the end of a draft is often wrong."""
    rows: list[NDArray[np.float32]] = []
    context.truncate(prompt - 1)
    while len(rows) < len(tokens) - prompt:
        start = prompt - 1 + len(rows)
        right = lengths.randrange(min(LONGEST, len(tokens) - start - 1))
        wrong = [lengths.randrange(context.n_vocab) for _ in range(lengths.choice((0, 0, 1, LONGEST - right)))]
        draft = tokens[start + 1 : start + 1 + right] + wrong
        found = context.evaluate([tokens[start], *draft], len(draft) + 1)
        rows += [row.copy() for row in found[: right + 1]]
        context.truncate(start + right + 1)
    return rows


def seeds_that_differ(prompt: int, plain: list[NDArray[np.float32]], drafted: list[NDArray[np.float32]]) -> set[int]:
    """The seeds with which some row would lead to another token. Equal rows cannot: the choice is a function of them."""
    return {
        seed
        for number, (one, other) in enumerate(zip(plain, drafted, strict=True))
        if not np.array_equal(one, other)
        for seed in range(SEEDS)
        for knobs in (replace(KNOBS, seed=seed),)
        if choose(one, knobs, prompt + number, ())[0] != choose(other, knobs, prompt + number, ())[0]
    }


def prompt_of(model: Model, tokens: int) -> list[int]:
    """The first so many tokens of a text that does not repeat."""
    text = " ".join(f"{SNAKE}, version {n}, with {n * n} walls." for n in range(60))
    return model.tokenize(text, special=False)[:tokens]


@pytest.mark.parametrize("prompt", PROMPTS)
def test_drafts_of_any_length_leave_the_text_as_it_is(smol: Model, prompt: int):
    """With each of 40 seeds, over a reply at temperature 0.7 that reaches more cells."""
    context = opened(smol)
    tokens, plain = plain_reply(context, prompt_of(smol, prompt), KNOBS)
    drafted = drafted_rows(context, tokens, prompt, random.Random(7))
    context.close()
    assert seeds_that_differ(prompt, plain, drafted) == set()
    assert all(np.array_equal(one, other) for one, other in zip(plain, drafted, strict=True))


def alone_and_together(context: Context, tokens: list[int], before: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The rows of the tokens from `before` on, from passes over one token and from one pass."""
    context.truncate(0)
    context.evaluate(tokens[:before], 0)
    alone = np.stack([context.evaluate([token], 1)[0].copy() for token in tokens[before:]])
    context.truncate(before)
    return alone, context.evaluate(tokens[before:], len(tokens) - before).copy()


def test_without_the_reference_path_rows_differ_from_257_tokens_on(smol: Model):
    """The negative control. Where it fails, llama.cpp has mended it, and `reference_path` can go."""
    context = opened(smol, equal_rows=False)
    alone, together = alone_and_together(context, prompt_of(smol, 262), 250)
    context.close()
    equal = [np.array_equal(one, other) for one, other in zip(alone, together, strict=True)]
    # The last pass has as many cells for its first rows as for its last ones, and a row skips those behind it.
    assert equal == [True] * 6 + [False] * 6


def test_a_pass_whose_last_part_is_a_single_row(smol: Model):
    """llama.cpp divides a pass of 17 tokens into 8, 8 and 1 where -ub is 8."""
    tokens = prompt_of(smol, 277)
    context = opened(smol, ubatch=8)
    alone, divided = alone_and_together(context, tokens, 260)
    context.close()
    assert np.array_equal(alone, divided)


def test_this_build_has_the_way_to_the_cpu_kernels():
    """Its name is C++, so an update of llama-cpp-python may lose it; --strict then needs cells of two types."""
    assert reference_path.available()
