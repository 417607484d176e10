"""A draft that cannot be used is refused with a sentence, and the target continues alone without being loaded again."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from spectui.engine import worker as worker_module
from spectui.engine.costs.files import DraftCosts, TargetCosts
from spectui.engine.events import Finished, Loaded, LoadFailed, Loading, Message, Notice
from spectui.engine.loading.remarks import no_cheaper
from spectui.engine.worker import Worker
from spectui.gguf_files.check import same_file
from spectui.gguf_files.random_model import write_tiny_model
from spectui.knobs import Knobs, Setup
from tests.engine.waiting import PATIENCE, Events, events_of
from tests.helpers.smollm2 import alone, setup
from tests.llama.ggufs import WORDS, byte_names, write_model


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Worker]:
    monkeypatch.setattr(worker_module, "deque", Events)
    worker = Worker(Knobs(temperature=0, predict=4))
    yield worker
    worker.close(PATIENCE)


def goes_on_alone(worker: Worker) -> None:
    """Without the draft it loads, answers, and the target's weights are not read again."""
    events = events_of(worker)
    before = len(events.of(Loading))
    worker.load(alone())
    worker.generate([Message("user", "hi")])
    assert events.wait(Finished).statistics.emitted == 4
    assert events.of(Loaded)[0].draft is None
    assert "target" not in [event.what for event in events.of(Loading)[before:]]


def test_a_draft_of_another_vocabulary_drafts_by_other_means_and_says_so(worker: Worker, tmp_path: Path):
    words = [*WORDS, *byte_names()]
    words[100] = "umbenannt"
    target, draft = write_model(tmp_path / "target.gguf"), write_model(tmp_path / "other.gguf", tokens=words)
    worker.load(Setup(model=str(target), draft=str(draft), ctx_size=256, threads=1, no_profile="on"))
    worker.generate([Message("user", "hi")])
    assert events_of(worker).wait(Finished).statistics.emitted == 4
    assert events_of(worker).of(Loaded)[0].draft is not None
    said = " ".join(event.message for event in events_of(worker).of(Notice))
    assert "another vocabulary than the target: some of its tokens differ" in said
    assert "100% of the tokens are shared, so it drafts among those" in said


@pytest.mark.parametrize(
    ("write", "said"),
    [
        (write_tiny_model, "has no vocabulary of text: choose a chat model."),
        (
            lambda draft: draft.write_bytes(Path(setup().model or "").read_bytes()[:3_000_000]),
            "draft.gguf' is damaged or cut short: download it again.",
        ),
        (lambda draft: None, "draft.gguf': check the path."),
    ],
    ids=["no texts", "cut short", "missing"],
)
def test_a_draft_that_cannot_be_used_is_refused(worker: Worker, tmp_path: Path, write: Callable[[Path], object], said: str):
    write(draft := tmp_path / "draft.gguf")
    worker.load(alone())  # the draft's file is looked at before anything is loaded
    events_of(worker).wait(Loaded)
    worker.load(replace(setup(), draft=str(draft)))
    failed = events_of(worker).wait(LoadFailed)
    assert failed.without_draft and failed.message.endswith(said)
    goes_on_alone(worker)


def test_a_target_with_a_broken_template_is_refused_each_time_and_freed(worker: Worker, tmp_path: Path):
    broken = replace(alone(), model=str(write_model(tmp_path / "broken.gguf", template="{% for %}")))
    for count in (1, 2):
        worker.load(broken)
        failed = events_of(worker).wait(LoadFailed, count)
        assert "The model's chat template cannot be read" in failed.message
    worker.load(alone())
    events_of(worker).wait(Loaded)


def test_a_context_beyond_all_memory_is_refused_and_a_smaller_one_reuses_the_target(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("spectui.llama.devices.context_memory.free_memory", lambda: 2**30)
    worker.load(replace(alone(), ctx_size=1_000_000))
    failed = events_of(worker).wait(LoadFailed)
    assert failed.message == (
        "A context of 1000000 tokens needs 2.9 GiB and 1.0 GiB are free: choose -c 349440 or less, or a smaller -ctk and -ctv."
    )
    assert not failed.without_draft
    goes_on_alone(worker)


def test_a_draft_that_is_the_target_itself_is_named_before_the_first_reply(worker: Worker, tmp_path: Path):
    target = Path(setup().model or "")
    link, hard_link = tmp_path / "link", tmp_path / "hard link"
    link.symlink_to(target)
    hard_link.hardlink_to(target)
    for draft in (target, link, hard_link):
        assert same_file(str(target), str(draft))
    worker.load(replace(setup(), draft=str(link)))
    events_of(worker).wait(Loaded)
    said = [event.message for event in events_of(worker).of(Notice)]
    assert "The draft is the target itself: choose a smaller draft, or leave out -md." in said


def test_a_draft_that_costs_as_much_as_the_target_is_named():
    def said(target: TargetCosts, draft: DraftCosts, size: float = 1.0) -> str:
        return no_cheaper(target, draft, same=False, size=size)

    target, dear = TargetCosts({1: 0.01, 2: 0.011}), DraftCosts(0.012, 0.0095)
    assert said(target, dear).startswith(
        "A token of the draft costs 0.95 of a pass of the target, so that its drafts cannot pay: "
    )
    assert said(target, DraftCosts(0.012, 0.008)) == said(target, DraftCosts()) == ""
    assert said(replace(target, noisy=True), dear) == "", "not known"
    assert said(TargetCosts(), DraftCosts(), 0.95).startswith("The draft's weights take 0.95 of the target's bytes"), (
        "with --no-profile nothing is measured"
    )
    assert said(TargetCosts(), DraftCosts(), 0.5) == ""
