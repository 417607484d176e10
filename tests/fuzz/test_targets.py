"""A few inputs for each way in; many more by hand: `python -m tests.fuzz NAME SECONDS`."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.targets import TARGETS, home


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECTUI_STATE_DIR", str(home()))


def test_every_target_is_fuzzed_each_night() -> None:
    workflow = yaml.safe_load((Path(__file__).parents[2] / ".github/workflows/test.yml").read_text(encoding="utf-8"))
    assert workflow["jobs"]["fuzz"]["strategy"]["matrix"]["target"] == list(TARGETS)


@pytest.mark.parametrize("name", TARGETS)
def test_what_it_begins_with_passes(name: str) -> None:
    for seed in (b"", *TARGETS[name].seeds()):
        TARGETS[name].run(seed)


@pytest.mark.parametrize("name", TARGETS)
def test_any_bytes_pass(name: str) -> None:
    target = TARGETS[name]
    seeds = st.sampled_from([b"", *target.seeds()])
    patches = st.lists(st.tuples(st.integers(0, 2**14), st.binary(max_size=6)), max_size=6)

    @given(seed=seeds, patches=patches, length=st.none() | st.integers(0, 2000))
    @settings(deadline=None, max_examples=60 if name != "conversations" else 15)
    def passes(seed: bytes, patches: list[tuple[int, bytes]], length: int | None) -> None:
        data = bytearray(seed)
        for at, patch in patches:
            place = at % (len(data) + 1)
            data[place : place + len(patch)] = patch
        target.run(bytes(data[:length]))

    passes()
