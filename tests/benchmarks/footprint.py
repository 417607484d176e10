"""Memory beyond the weights and the KV cells: what spectui itself takes, with its libraries and llama.cpp's buffers.

python -m tests.benchmarks.footprint -m TARGET -md DRAFT
"""

from __future__ import annotations

import argparse
import re

import psutil

from spectui.engine.events import Message
from spectui.engine.session import Session
from spectui.knobs import Knobs, Setup
from spectui.llama import library
from spectui.llama.devices.context_memory import cell_bytes
from tests.benchmarks.prompts import PROMPTS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-m", "--model", required=True)
    parser.add_argument("-md", "--draft")
    parser.add_argument("-c", "--ctx-size", type=int, default=4096)
    parser.add_argument("-ub", "--ubatch-size", type=int, default=Setup().ubatch)
    parser.add_argument("-fa", "--flash-attn", default=Setup().flash_attn)
    args = parser.parse_args()
    session = Session(lambda _: None)
    setup = Setup(
        model=args.model,
        draft=args.draft,
        ctx_size=args.ctx_size,
        ubatch=args.ubatch_size,
        flash_attn=args.flash_attn,
    )
    private_weights: dict[str, float] = {}

    def watch(line: str) -> None:
        found = re.search(r"(\S+) model buffer size =\s+([\d.]+) MiB", line)
        if found and "Mapped" not in found.group(1):
            private_weights[line] = float(found.group(2)) * 2**20

    with library.listening(watch):
        session.load(setup)
    session.knobs = Knobs(predict=64)
    session.generate([Message("user", PROMPTS["summary"])])
    pair = session.pair
    assert pair is not None and pair.target is not None
    cells = cell_bytes(pair.target, setup.cache_type_k, setup.cache_type_v) * args.ctx_size
    if pair.draft is not None:
        cells += cell_bytes(pair.draft, setup.cache_type_k_draft, setup.cache_type_v_draft) * args.ctx_size
    process = psutil.Process()
    resident = process.memory_info().rss
    mapped = sum(region.rss for region in process.memory_maps() if region.path.endswith(".gguf"))
    weights = sum(private_weights.values())
    for name, size in (
        ("resident", resident),
        ("pages of the GGUF files", mapped),
        ("weights repacked for the kernels", weights),
        ("KV cells", cells),
        ("beyond weights and KV cells", resident - mapped - weights - cells),
    ):
        print(f"{name:34} {size / 1e6:8.0f} MB")


if __name__ == "__main__":
    main()
