"""Attached to the real llama-server, where it is built: SmolLM2 drafted by its copy in Q2_K, and by n-grams."""

import json
import re
import shutil
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from spectui.attach.catalogue import ServedModels
from spectui.engine.events import Counted, Finished, Loaded, Loading, Message, Prompt, RoundDone
from spectui.knobs import Knobs, Setup
from spectui.speculation.records import StopReason
from tests.attach.test_session import Opened
from tests.helpers import smollm2
from tests.helpers.llama_server import KINDS, MORE, QUESTION, SHARED, LlamaServer, needs_llama_server, serving
from tests.llama.heads.headed import write_headed

pytestmark = [needs_llama_server, pytest.mark.xdist_group("llama-server")]

ASKED = [Message("user", QUESTION)]
GREEDY = Knobs(temperature=0.0, predict=60, seed=1)


@contextmanager
def running(*arguments: str | None) -> Iterator[LlamaServer]:
    words = ["-m", str(smollm2.whole().model), "--port", "${PORT}", *SHARED, *map(str, arguments)]
    with serving(words) as server:
        yield server


def counted(server: LlamaServer) -> dict[str, float]:
    """What the server has counted by itself, by position too."""
    with urllib.request.urlopen(f"{server.address}/metrics") as answer:
        return {
            name: float(value) for name, value in re.findall(r"^llamacpp:(\S+) (\S+)$", answer.read().decode(), re.MULTILINE)
        }


def curl(server: LlamaServer, messages: Sequence[Message], **more: object) -> dict[str, object]:
    body = {"messages": [{"role": each.role, "content": each.content} for each in messages], "temperature": 0.0,
            "max_tokens": 60, "cache_prompt": False, **more}  # fmt: skip
    request = urllib.request.Request(f"{server.address}/v1/chat/completions", json.dumps(body).encode())
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


@pytest.mark.parametrize("kind", KINDS | MORE)
def test_the_origins_add_up_to_what_the_server_counted_and_the_text_is_its_own(kind):
    with running(*(KINDS | MORE)[kind]()) as server:
        attached = Opened(server.address, GREEDY)
        finished = attached.ask(*ASKED)
        counts, figures = counted(server), finished.statistics
        plain = curl(server, ASKED)
    assert figures.drafted == counts["spec_decode_num_draft_tokens_total"]
    assert figures.accepted == counts["spec_decode_num_accepted_tokens_total"]
    drafted = [each.round for each in attached.events if isinstance(each, RoundDone) and each.round.drafted]
    assert len(drafted) == counts["spec_decode_num_drafts_total"]
    by_position = [value for name, value in counts.items() if "per_pos" in name]
    assert figures.kept == [int(value) for value in by_position][: len(figures.kept)]
    assert bool(figures.accepted) == bool(kind)
    assert figures.emitted == counts["tokens_predicted_total"] == plain["usage"]["completion_tokens"]  # type: ignore[index]
    assert finished.reason is (StopReason.LIMIT if figures.emitted == 60 else StopReason.EOS)
    assert finished.text == plain["choices"][0]["message"]["content"] == attached.text()  # type: ignore[index]
    assert figures.decode_s == pytest.approx(counts["tokens_predicted_seconds_total"], abs=0.01)
    loaded = attached.loaded
    assert (loaded.target.n_ctx, loaded.setup.draft) == (1024, "server" if kind else None)
    named = [each.setup.draft for each in attached.events if isinstance(each, Loaded)]
    assert named == (["server", kind] if kind else [None])  # the name comes while it writes
    told = [each.since_start for each in attached.events if isinstance(each, Counted)]
    assert [each.accepted for each in told] == [0, figures.accepted] and told[-1].drafts == len(drafted)
    assert finished.prompt_tokens == plain["usage"]["prompt_tokens"]  # type: ignore[index]


@pytest.mark.parametrize("heads", [1, 3])
def test_a_models_own_heads_are_counted_as_drafts(tmp_path: Path, heads: int):
    path = write_headed(tmp_path / "headed.gguf", heads=heads, echo=0.2)
    flags = ["--spec-type", "draft-mtp", "--spec-draft-n-max", "3", "--spec-draft-p-min", "0", "--chat-template", "chatml"]
    with serving(["-m", str(path), "--port", "${PORT}", *SHARED, *flags]) as server:
        attached = Opened(server.address, GREEDY)
        figures, counts = attached.ask(Message("user", "hello")).statistics, counted(server)
    assert (figures.drafted, figures.accepted, figures.emitted) == (
        counts["spec_decode_num_draft_tokens_total"], counts["spec_decode_num_accepted_tokens_total"],
        counts["tokens_predicted_total"],
    )  # fmt: skip
    drafted = [each for each in attached.events if isinstance(each, RoundDone) and each.round.drafted]
    assert len(drafted) == counts["spec_decode_num_drafts_total"] and figures.accepted > 20
    assert max(len(each.round.drafted) for each in drafted) == 3


def test_the_likeliest_tokens_are_those_of_plain_rounds():
    with running(*KINDS["ngram-mod"]()) as server:
        attached = Opened(server.address, GREEDY)
        attached.session.wants_probabilities = True
        text = attached.ask(*ASKED).text
        attached.session.wants_probabilities = False
        assert attached.ask(*ASKED).text == text
    rounds = [each.round for each in attached.events if isinstance(each, RoundDone)]
    known = [round for round in rounds if round.likeliest is not None]
    assert known and not [round for round in known if round.drafted]
    for round in known:
        (token, _, p), *_ = round.likeliest.at(0)  # type: ignore[union-attr]
        assert (round.tokens[0].id, round.tokens[0].p_target) == (token, pytest.approx(p, abs=1e-6))


def test_a_stopped_reply_is_continued_and_a_second_message_reuses_cells():
    with running() as server:
        attached = Opened(server.address, GREEDY)
        first = attached.ask(*ASKED)
        begun = [*ASKED, Message("assistant", first.text)]
        second = attached.ask(*begun)
        attached.ask(*begun, Message("user", "Again."))
        whole = curl(server, begun, continue_final_message=True, add_generation_prompt=False)
    assert second.text == whole["choices"][0]["message"]["content"].removeprefix(first.text)  # type: ignore[index]
    assert [each.reused for each in attached.events if isinstance(each, Prompt)][-1] > 40


def test_the_routers_models_are_listed_and_choosing_one_loads_it(tmp_path: Path):
    for name in ("one", "two"):
        shutil.copyfile(smollm2.setup().model or "", tmp_path / f"{name}.gguf")
    with serving(
        ["--models-dir", str(tmp_path), "--port", "${PORT}", "-c", "512", "-t", "1", "--no-warmup", "-fit", "off"]
    ) as server:
        listed = sorted(header.name for header in ServedModels(server.address, "").scan())
        attached = Opened(server.address, GREEDY, server_model="two")
        assert [each.what for each in attached.events if isinstance(each, Loading)][-1] == "two"
        attached.ask(*ASKED)
        attached.session.load(Setup(server=server.address, model="one"))
        attached.ask(*ASKED)
    assert {"one", "two"} <= set(listed)
    assert [each.setup.model for each in attached.events if isinstance(each, Loaded)] == ["two", "one"]
    assert len([each for each in attached.events if isinstance(each, Finished)]) == 2
