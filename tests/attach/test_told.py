"""What a server tells beside the text: what it has counted, what drafts, the likeliest tokens, that it still loads."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.attach.facts import read_counts
from spectui.chat.sentences import counted_lines
from spectui.engine.events import Counted, Counts, Finished, Loaded, Message, Notice, RoundDone
from spectui.knobs import Setup
from spectui.speculation.records import StopReason
from tests.attach.scripted_server import LISTED, PROPS, Answer, as_json, delta, events, serving, timings
from tests.attach.test_connecting import LOADING
from tests.attach.test_session import ASKED, GOOD, Opened

VLLM = """\
# HELP vllm:spec_decode_num_drafts_total Number of spec decoding drafts.
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{engine="0",model_name="m"} 22.0
vllm:spec_decode_num_drafts_total{engine="1",model_name="m"} 3.0
vllm:spec_decode_num_drafts_created{engine="0",model_name="m"} 1.756736798733569e+09
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="m"} 66.0
vllm:spec_decode_num_draft_tokens_total{engine="1",model_name="m"} 9.0
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="m"} 40.0
vllm:spec_decode_num_accepted_tokens_total{engine="1",model_name="m"} NaN
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="0"} 20.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="2"} 8.0
"""


def llama(drafts: int, drafted: int, accepted: int) -> Answer:
    """llama-server's page of counters."""
    names = ("drafts", drafts), ("draft_tokens", drafted), ("accepted_tokens", accepted)
    lines = [f"llamacpp:spec_decode_num_{name}_total {value}\n" for name, value in names]
    lines.append(f'llamacpp:spec_decode_num_accepted_tokens_per_pos_total{{position="0"}} {drafts}\n')
    return Answer(200, ("".join(["llamacpp:n_decode_total 7\n", *lines]).encode(),))


def test_the_counters_of_vllm_are_added_up_over_its_engines():
    assert read_counts(VLLM) == Counts(25, 75, 40, (20, 0, 8))
    assert read_counts("vllm:num_requests_running 0\n") is None
    assert read_counts("<html>no such page</html>") is None


@given(st.text(alphabet='spec_decode_num_draftsokenacptlpo:{}"= \n0123456789.eE+', max_size=300) | st.text())
def test_no_text_makes_reading_the_counters_raise(text):
    read_counts(text)
    read_counts(f"vllm:spec_decode_num_drafts{text}")


def test_what_a_server_counts_is_told_after_the_start_and_after_each_reply():
    paths = {"props": as_json(PROPS | {"endpoint_metrics": True}),
             "metrics": [llama(10, 40, 30), llama(14, 60, 42), llama(1, 4, 0)]}  # fmt: skip
    with serving(GOOD, **paths) as server:
        opened = Opened(server)
        opened.ask()
        opened.ask()  # the server was started again meanwhile
    assert opened.told(Counted) == [
        Counted(Counts(10, 40, 30, (10,))),
        Counted(Counts(14, 60, 42, (14,)), Counts(4, 20, 12, (4,))),
        Counted(Counts(1, 4, 0, (1,)), Counts(1, 4, 0, (1,))),
    ]
    assert list(counted_lines(Counted(Counts(14, 60, 42, (14,)), Counts(4, 20, 12, (4, 3))))) == [
        "since its start 60 drafted, 42 accepted (70 %)",
        "since the reply before 20 drafted, 12 accepted (60 %), by position 1.0 .75",
    ]
    assert list(counted_lines(Counted(Counts(0, 0, 0)))) == list(counted_lines(None)) == []


@pytest.mark.parametrize("answer", [Answer(404), Answer(200, (b"<html>",)), as_json({"error": "Unexpected endpoint"})])
def test_a_server_without_counters_is_not_asked_for_them_again(answer):
    with serving(GOOD, v1__models=as_json({"data": [{"id": "m"}]}), props=Answer(404), metrics=answer) as server:
        opened = Opened(server)
        opened.ask()
    assert not opened.told(Counted)
    assert [path for path, _, _ in server.requests].count("/metrics") == 1


def row(token: int, text: str, p: float, *best: tuple[int, str, float]) -> dict[str, object]:
    rows = [{"id": each, "token": word, "logprob": p} for each, word, p in best]
    return {"id": token, "token": text, "logprob": p, "top_logprobs": rows}


def likely(text: str, *rows: dict[str, object], **more: object) -> dict[str, object]:
    return {"choices": [{"delta": {"content": text}, "logprobs": {"content": list(rows)}}], **more}


def test_the_likeliest_tokens_are_asked_for_while_they_are_looked_at_and_shown():
    chat = events(
        likely("A", row(5, "A", -0.5, (5, "A", -0.5), (6, "\x1bB", -1.0)), **timings(1)),
        delta("b", **timings(2, 2, 1)),
        likely("c", row(9, "c", 0.0), **timings(3, 2, 1)),  # without others its probability is none
        delta(finish="stop"),
    )
    with serving([GOOD, chat]) as server:
        opened = Opened(server)
        opened.ask()
        opened.session.wants_probabilities = True
        opened.ask()
    first, second = server.bodies()
    assert "logprobs" not in first and (second["logprobs"], second["top_logprobs"]) == (True, 5)
    plain, drafted = (each.round for each in opened.told(RoundDone)[-2:])
    assert plain.likeliest is not None
    assert [(token, text, round(p, 3)) for token, text, p in plain.likeliest.at(0)] == [(5, "A", 0.607), (6, "B", 0.368)]
    assert round(plain.tokens[0].p_target, 3) == 0.607 and plain.tokens[0].id == 5
    assert drafted.likeliest is None and [token.p_target for token in drafted.tokens] == [None, None]


def test_what_drafts_is_learned_while_the_first_reply_is_written():
    before = as_json([{"id": 0, "n_ctx": 256, "speculative": True}])
    now = as_json([{"id": 0, "n_ctx": 256, "speculative": True, "params": {"speculative.types": "ngram-mod"}}])
    with serving(GOOD, slots=[before, now]) as server:
        opened = Opened(server)
        assert (opened.loaded.setup.draft, {each.flag for each in opened.loaded.fixed if each.knob == "draft_max"}) == (
            "server", {"--spec-draft-n-max"},
        )  # fmt: skip
        opened.ask()
        opened.ask()
    again = opened.told(Loaded)[-1]
    assert len(opened.told(Loaded)) == 2 and again.setup.draft == "ngram-mod"
    assert {each.flag for each in again.fixed if each.knob == "draft_max"} == {"--spec-ngram-mod-n-max"}
    assert {token.source for token in opened.tokens()} == {None, "ngram-mod"}


def test_a_server_that_drafts_nothing_is_told_once_what_it_lacks():
    """Since --spec-type is none by default, one that was started with -md does not draft."""
    with serving(GOOD, slots=as_json([{"id": 0, "speculative": False}])) as server:
        opened = Opened(server)
        opened.ask()
        opened.ask()
    (notice,) = opened.notices()
    assert "--spec-type draft-simple and -md DRAFT" in notice
    assert "/metrics" not in [path for path, _, _ in server.requests], "counters that are off are not asked for"


@pytest.mark.parametrize("sign", ["drafts", "context", "gone"])
def test_a_server_that_was_started_again_is_looked_at_again(sign):
    """It drafts now, its context is another one, or it did not answer meanwhile."""
    plain = [delta(text, **timings(n, ms=100.0 * n)) for n, text in enumerate("abcdef", 1)]

    def slots(drafts: bool) -> Answer:
        return as_json([{"id": 0, "n_ctx": 256, "speculative": drafts}])

    told = {"drafts": [slots(False), slots(False), slots(True)], "context": [slots(True)], "gone": [Answer(404)]}[sign]
    wider = as_json(PROPS | {"default_generation_settings": {"n_ctx": 512}})
    first = events(*plain, delta(finish="stop"))
    with serving(
        [first, *([LOADING] if sign == "gone" else []), GOOD], slots=told, props=[as_json(PROPS)] * 2 + [wider]
    ) as server:
        opened = Opened(server)
        opened.ask()
        assert [event.round.plain_s is None for event in opened.told(RoundDone)][-1] is False
        opened.ask()
    assert [loaded.target.n_ctx for loaded in opened.told(Loaded)] == [256, 512]
    assert opened.told(RoundDone)[-1].round.plain_s is None  # passes of the server before say nothing


@pytest.mark.parametrize("silent", ["v1__models", "slots"])
def test_a_reply_goes_on_where_the_server_does_not_say_what_it_is_now(silent: str):
    paths = {"v1__models": as_json(LISTED), "slots": as_json([{"id": 0, "n_ctx": 256, "speculative": True}])}
    with serving(GOOD, **(paths | {silent: [paths[silent], Answer(500)]})) as server:
        opened = Opened(server)
        assert opened.ask().text == "Abcd"
    assert [loaded.setup.draft for loaded in opened.told(Loaded)] == ["server"]


def test_waiting_for_it_can_be_left():
    with serving(LOADING) as server:
        opened = Opened(server)
        opened.hook = lambda event: opened.stop.set() if isinstance(event, Notice) else None
        assert opened.ask().reason is StopReason.CANCELLED


def test_a_context_that_a_server_told_is_no_setting_of_ours():
    other = {"data": [LISTED["data"][0] | {"id": "two", "meta": {"n_ctx": 512}}]}  # type: ignore[dict-item]
    wider = as_json(PROPS | {"default_generation_settings": {"n_ctx": 512}})
    with serving(GOOD, v1__models=[as_json(LISTED), as_json(other)], props=[as_json(PROPS), wider]) as server:
        opened = Opened(server)
        again = opened.session.load(replace(opened.loaded.setup, model="two"))
        assert (again.target.n_ctx, opened.told(Notice)) == (512, [])
        opened.session.load(Setup(server=server.url, ctx_size=77))
    assert opened.notices() == ["A server has settings of its own, so these have no effect: ctx-size."]


def test_a_server_whose_list_of_models_is_empty_is_asked_without_a_name():
    """As mlx_lm.server answers before anything was downloaded."""
    with serving(events(delta("x"), delta(finish="stop")), v1__models=Answer(200), props=Answer(404)) as server:
        assert Opened(server).ask().text == "x"
    assert "model" not in server.bodies()[0]


def test_vllm_is_told_to_go_on_with_a_reply():
    listed = as_json({"data": [{"id": "m", "owned_by": "vllm", "max_model_len": 4096}]})
    with serving(events(delta("x"), delta(finish="stop")), v1__models=listed, props=Answer(404)) as server:
        finished = Opened(server).ask(*ASKED, Message("assistant", "Once"))
    assert isinstance(finished, Finished) and server.bodies()[0]["continue_final_message"] is True


@pytest.mark.parametrize(
    ("props", "row", "takes"),
    [
        (PROPS, {"owned_by": "llamacpp"}, False),
        (PROPS | {"modalities": {"vision": True}}, {"owned_by": "llamacpp"}, True),
        (PROPS | {"modalities": {"vision": False}}, {"architecture": {"input_modalities": ["text", "image"]}}, False),
        ({}, {"owned_by": "vllm"}, True),
        ({}, {"architecture": {"input_modalities": ["text", "image"]}}, True),
        ({}, {"capabilities": ["completion"]}, False),
        ({}, {"capabilities": ["completion", "multimodal"]}, True),
        ({}, {"capabilities": {"vision": False}, "architecture": "qwen"}, True),
    ],
)
def test_what_a_server_says_of_images_decides_and_one_that_says_nothing_is_asked(props, row, takes):
    with serving(GOOD, props=as_json(props), v1__models=as_json({"data": [{"id": "m"} | row]})) as server:
        assert Opened(server).loaded.images is takes
