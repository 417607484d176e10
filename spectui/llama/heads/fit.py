"""Whether a head that reads rows of several of its target's layers can draft for a target."""

from __future__ import annotations

from spectui.gguf_files.check import name_of_heads, vocabulary_of
from spectui.gguf_files.heads import borrows, layers_read
from spectui.llama.model import Model
from spectui.pin import LAST_ROWS, LAYER_ROWS


def misfit(path: str, target: Model) -> str:
    """Why the head in this file cannot draft for this target, as a sentence; "" if it may.

    llama.cpp asserts what is asked here, when the target's context is told to keep rows, or when the head computes.
    """
    architecture, layers = target.metadata("general.architecture") or "", target.layers - 1
    head = f"The head ({name_of_heads(path)}) in {path!r}"
    if architecture not in LAYER_ROWS.split():
        return (
            f"{head} cannot draft: this llama.cpp does not give it the rows of a {architecture}'s layers; use a small model "
            "of the target's family as the draft."
        )
    file = vocabulary_of(path)
    if file is None:
        return f"{head} cannot be read: check the file."
    own = file.number("embedding_length")
    wide = file.number("target_hidden_size") or own
    read, last = layers_read(file), layers if architecture in LAST_ROWS.split() else layers - 1
    why = ""
    if wide != target.width:
        why = f"it reads rows of {wide} numbers instead of {target.width}"
    elif any(not 0 <= layer <= last for layer in read):
        why = f"it reads the layers {', '.join(map(str, read))}, and those of this one are 0 to {last}"
    elif borrows(file) and (own, file.n_tokens) != (target.width, target.n_vocab):
        why = f"it uses the target's embeddings, as {own} numbers of {file.n_tokens} tokens"
    return f"{head} is that of another model ({why}): choose the file that was made for this target." if why else ""
