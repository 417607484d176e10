"""Models to choose from, without a file."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from textual.containers import Vertical
from textual.pilot import Pilot
from textual.widgets import Input

from spectui.gguf_files.catalogue import ModelCatalogue
from spectui.gguf_files.header import GgufHeader
from spectui.gguf_files.vocabulary import VocabularyDigest
from tests.ui.pilot_helpers import wait_until

QWEN = VocabularyDigest("BPE", 152_000, digests="a" * 8)
LLAMA = VocabularyDigest("BPE", 128_000, digests="b" * 8)


def header(name: str, size: int, vocabulary: VocabularyDigest | None = QWEN, **other: object) -> GgufHeader:
    """A model file of Qwen's, with what is said otherwise."""
    return replace(
        GgufHeader(f"/models/{name}.gguf", size, "qwen2", "Q8_0", "1.5B", 32_768, vocabulary), **other  # type: ignore[arg-type]
    )  # fmt: skip


HEADERS = [
    header("qwen2.5-coder-1.5b-instruct-q8_0", 1_894_532_128),
    header("qwen2.5-coder-0.5b-instruct-q4_0", 428_730_336, quantisation="Q4_0", parameters="0.5B"),
    header("qwen2.5-coder-7b-instruct-q4_k_m", 4_683_073_952, quantisation="Q4_K_M", parameters="7B"),
    header("llama-3.2-1b-instruct-q8_0", 1_321_079_200, LLAMA, architecture="llama", parameters="1.2B", n_ctx_train=131_072),
    header("mamba-130m-q8_0", 139_000_000, None, architecture="mamba", parameters="130M", n_ctx_train=None),
    header("gemma-3-4b-it-q4_0", 2_600_000_000, None, problem="is damaged or cut short: download it again"),
]
"""Models as a machine may have it."""


class Known(ModelCatalogue):
    """A catalogue with these models."""

    def __init__(self, headers: list[GgufHeader]) -> None:
        super().__init__()
        self.headers = headers

    def scan(self, beside: object = (), cancelled: Callable[[], bool] = lambda: False) -> Iterator[GgufHeader]:
        """All of them, at once."""
        yield from self.headers


async def listed(pilot: Pilot[None]) -> None:
    """Wait until the picker has them all; its cursor stands still."""
    pilot.app.screen.query_one(Input).cursor_blink = False
    await wait_until(pilot, lambda: pilot.app.screen.query_one(Vertical).border_subtitle == f"{len(HEADERS)} models")
