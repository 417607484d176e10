"""What llama-server streamed (`python -m tests.generators.streams`), read without it, and the forms of a stream."""

import asyncio
import gzip
import json
import zlib
from collections.abc import AsyncIterator

import pytest

from spectui.attach.chunks import Chunk, chunks
from spectui.attach.origins import Origins
from spectui.knobs import Knobs
from spectui.speculation.statistics import Statistics
from tests.attach.scripted_server import Answer, delta, events, serving
from tests.attach.test_origins import check_rounds
from tests.attach.test_session import Opened
from tests.generators.streams import RECORDED

FILES = sorted(RECORDED.glob("*.sse"))


def read(stream: bytes, size: int) -> list[Chunk]:
    async def pieces() -> AsyncIterator[bytes]:
        for at in range(0, len(stream), size):
            yield stream[at : at + size]

    async def whole() -> list[Chunk]:
        return [chunk async for chunk in chunks(pieces(), "the server")]

    return asyncio.run(whole())


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_origins_of_a_recorded_stream_add_up_to_what_the_server_counted(file):
    stream, _, counted = file.read_text().partition(": counted ")
    counts = json.loads(counted)
    found = read(stream.encode(), 700)
    assert found == read(stream.encode(), 11) == read(stream.encode(), 10**6)
    origins = Origins(Knobs(), file.stem)
    rounds = [round for chunk in found for round in origins.add(chunk.text, chunk.counters)] + [*origins.end()]
    figures = Statistics.of(rounds)
    check_rounds(rounds)
    assert (figures.drafted, figures.accepted, figures.emitted) == (
        counts["spec_decode_num_draft_tokens_total"], counts["spec_decode_num_accepted_tokens_total"],
        counts["tokens_predicted_total"],
    )  # fmt: skip
    assert sum(bool(round.drafted) for round in rounds) == counts["spec_decode_num_drafts_total"]
    assert figures.decode_s == pytest.approx(counts["tokens_predicted_seconds_total"], abs=0.01)
    speeds = [chunk.counters.speed for chunk in found if chunk.counters]
    assert figures.tokens_per_s == pytest.approx(speeds[-1], rel=1e-5)  # the server's own
    assert bool(figures.accepted) == (file.stem != "plain")
    assert [chunk.progress for chunk in found if chunk.progress] and any(chunk.usage for chunk in found)


DOCUMENTED = sorted((RECORDED.parent / "documented").glob("*.sse"))


@pytest.mark.parametrize("file", DOCUMENTED, ids=lambda file: file.stem)
def test_the_streams_of_other_servers_are_read(file):
    """Written after the documentation or the source of each, which were not run here."""
    found = read(file.read_bytes(), 100)
    assert "".join(chunk.thought for chunk in found) == "They greet me."
    assert "".join(chunk.text for chunk in found) == "Good day, how are you?"
    assert [chunk.finish for chunk in found if chunk.finish] == ["stop"]
    assert [chunk.usage[:2] for chunk in found if chunk.usage] == [(12, 12)]
    assert not [chunk for chunk in found if chunk.counters or chunk.chosen or chunk.error is not None]
    told = [chunk.progress[:2] for chunk in found if chunk.progress]
    assert told == ([(8, 12)] if file.stem == "mlx_lm" else [])


def test_there_are_streams_of_each_kind_of_drafts_and_of_each_server_that_docs_name():
    assert [file.stem for file in FILES] == ["draft-simple", "ngram-mod", "plain"]
    assert [file.stem for file in DOCUMENTED] == ["lm-studio", "mlx_lm", "ollama", "openrouter", "vllm"]


STREAM = b"".join(
    piece for piece in events(delta("Gr"), delta("\u00fc\u00dfe"), delta(finish="stop")).pieces if isinstance(piece, bytes)
)


@pytest.mark.parametrize(
    ("pieces", "headers"),
    [
        ([bytes([each]) for each in STREAM.replace(b"\n", b"\r\n")], {}),
        ([STREAM.replace(b"\n\n", b"\n")], {}),
        ([gzip.compress(STREAM)], {"Content-Encoding": "gzip"}),
        ([zlib.compress(STREAM)], {"Content-Encoding": "deflate"}),
    ],
    ids=["CRLF in pieces", "no empty lines", "gzip", "deflate"],
)  # fmt: skip
def test_a_stream_is_read_however_it_is_written(pieces, headers):
    with serving(Answer(200, pieces, headers)) as server:
        assert Opened(server).ask().text == "Gr\u00fc\u00dfe"
