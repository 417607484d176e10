"""Rounds are rebuilt from a server's running counters: they add up, whatever a server counts."""

from hypothesis import given, settings
from hypothesis import strategies as st

from spectui.attach.chunks import Counters, read_chunk
from spectui.attach.origins import Origins
from spectui.knobs import Knobs
from spectui.speculation.records import Round
from spectui.speculation.statistics import Statistics
from spectui.store.rounds.packing import pack, unpack
from tests.attach.scripted_server import timings


def counters(predicted: int, drafted: int = 0, accepted: int = 0, seconds: float | None = 0.0) -> Counters:
    return Counters(predicted, drafted, accepted, seconds, 7, 0, 0.05)


def rebuilt(*chunks: tuple[str, Counters | None], last: Counters | None = None, total: int | None = None) -> list[Round]:
    origins = Origins(Knobs(), "draft-simple")
    rounds = [round for text, found in chunks for round in origins.add(text, found)]
    return [*rounds, *origins.add("", last), *origins.end(total)]


def words(rounds: list[Round]) -> str:
    """Each round as its tokens with the first letter of their origins, and how many drafted ones were rejected."""
    return " | ".join(
        " ".join(f"{token.text}:{token.origin[0]}" for token in round.tokens)
        + f" -{round.count('rejected')}" * bool(round.drafted)
        for round in rounds
    )


def test_the_counters_jump_at_the_first_token_of_a_round():
    rounds = rebuilt(
        ("A", counters(1)),
        ("b", counters(2, 3, 2)), ("c", counters(3, 3, 2)), ("d", counters(4, 3, 2)),
        ("e", counters(5, 3, 2)),
        ("f", counters(6, 5, 4)), ("g", counters(7, 5, 4)), ("h", counters(8, 5, 4)),
        ("i", counters(9, 9, 4)),
    )  # fmt: skip
    assert words(rounds) == "A:p | b:a c:a d:c -1 | e:p | f:a g:a h:b -0 | i:c -4"
    assert [round.position for round in rounds] == [0, 1, 4, 5, 8]
    assert Statistics.of(rounds).per_position == [2 / 3, 1.0, 0.0, None]


def test_tokens_without_a_chunk_fill_the_round_that_is_open():
    # "é" of two tokens: the first of them has no chunk.
    rounds = rebuilt(("A", counters(1)), ("é", counters(3, 4, 3)), ("d", counters(5, 4, 3)), ("f", counters(7, 6, 3)))
    assert words(rounds) == "A:p | :a é:a :a d:c -1 | :p | f:c -2"


def test_seconds_are_the_servers():
    rounds = rebuilt(("A", counters(1, seconds=0.0)), ("b", counters(2, 2, 1, 0.3)), ("c", counters(3, 2, 1, 0.3)),
                     ("d", counters(4, 2, 1, 0.5)))  # fmt: skip
    assert [round.seconds for round in rounds] == [0.0, 0.3, 0.5 - 0.3]


def test_without_counters_each_chunk_is_a_plain_token_and_the_total_is_the_servers():
    rounds = rebuilt(("a", None), ("b", None), ("c", None), total=5)
    assert words(rounds) == "a:p | b:p | c:p | :p | :p"
    assert all(round.plain_s is None for round in rounds)
    assert words(rebuilt(("a", None))) == "a:p"


chunk_rows = st.lists(
    st.tuples(
        st.text("aé漢\n", max_size=3), st.booleans(), st.integers(0, 3), st.integers(0, 9), st.integers(0, 9), st.floats(0, 2)
    ),
    max_size=40,
)


@settings(max_examples=300, deadline=None)
@given(chunk_rows)
def test_of_growing_counters_the_origins_add_up(rows):
    """What llama-server can send: every jump of the drafts comes with a token, and accepted ones were drafted."""
    now, chunks, sent = counters(0), [], ""
    for text, told, new, drafted, accepted, seconds in rows:
        drafted = drafted if new else 0
        now = counters(
            now.predicted + new, now.drafted + drafted, now.accepted + min(accepted, drafted), (now.seconds or 0) + seconds
        )
        chunks.append((text, now if told else None))
        sent += text
    rounds = rebuilt((("", counters(0))), *chunks, last=now)
    figures = Statistics.of(rounds)
    assert (figures.drafted, figures.accepted) == (now.drafted, now.accepted)
    assert figures.emitted >= now.predicted
    assert "".join(token.text for round in rounds for token in round.tokens) == sent
    check_rounds(rounds)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
wild_counts = st.integers(-3, 30) | anything


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.fixed_dictionaries(
            {},
            optional={
                "choices": st.lists(
                    st.fixed_dictionaries({"delta": st.fixed_dictionaries({"content": st.text(max_size=4) | anything})}),
                    max_size=2,
                )
                | anything,
                "timings": st.fixed_dictionaries(
                    {},
                    optional={
                        "predicted_n": wild_counts, "draft_n": wild_counts, "draft_n_accepted": wild_counts,
                        "predicted_ms": wild_counts,
                    },
                )
                | anything,
                "usage": anything,
                "prompt_progress": anything,
            },
        )
        | anything,
        max_size=12,
    )
)  # fmt: skip
def test_whatever_a_server_sends_nothing_raises_and_the_rounds_are_sound(rows):
    origins, rounds = Origins(Knobs(), "server"), []
    for row in rows:
        chunk = read_chunk(row)
        rounds += origins.add(chunk.text, chunk.counters, chunk.chosen)
    rounds += origins.end()
    check_rounds(rounds)


def check_rounds(rounds: list[Round]) -> None:
    """Every round is one that a pass could have made, and can be saved."""
    position = 0
    for index, round in enumerate(rounds):
        assert (round.index, round.position) == (index, position) and round.tokens
        position += len(round.tokens)
        accepted = round.count("accepted")
        assert len(round.tokens) <= accepted + 1 and accepted + round.count("rejected") == len(round.drafted)
        own = "plain" if not round.drafted else "bonus" if accepted == len(round.drafted) else "correction"
        assert [token.origin for token in round.tokens] == (["accepted"] * accepted + [own])[: len(round.tokens)]
        assert round.seconds >= 0
    assert [each.tokens for each in unpack(pack(rounds))] == [each.tokens for each in rounds]


def test_a_huge_count_takes_no_memory():
    found = read_chunk({"choices": [{"delta": {"content": "x"}}], **timings(10**9, 10**9, 10**9)})
    rounds = rebuilt((found.text, found.counters))
    assert sum(len(round.drafted) for round in rounds) < 10_000


def test_a_plain_pass_is_known_from_rounds_without_a_draft_alone():
    drafts = [("x", counters(n + 1, 6 * n, 0, 0.3 * n)) for n in range(1, 9)]
    assert {round.plain_s for round in rebuilt(("a", counters(1)), *drafts)} == {None}
    plain = [("x", counters(n + 1, 0, 0, 5.0 + 0.1 * n)) for n in range(9)]  # the first one's time is the prompt's
    known = [round.plain_s for round in rebuilt(*plain)]
    assert known[:4] == [None] * 4 and known[-1] is not None and abs(known[-1] - 0.1) < 1e-9
