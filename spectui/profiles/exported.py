"""A profile as llama-server can be told it: flags, and comments for what it does not have.

A setting that llama-server lacks is written as a comment `spectui: NAME = VALUE`, which importing reads back.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from spectui import config
from spectui.config import Configuration, UiSettings
from spectui.errors import UsageError
from spectui.knobs import Knobs, Setup, title
from spectui.text import escaped

FLAGS = {
    "model": "--model", "ctx_size": "--ctx-size", "gpu_layers": "--n-gpu-layers", "device": "--device", "rpc": "--rpc",
    "numa": "--numa",
    "tensor_split": "--tensor-split", "split_mode": "--split-mode", "main_gpu": "--main-gpu", "flash_attn": "--flash-attn",
    "cache_type_k": "--cache-type-k", "cache_type_v": "--cache-type-v", "threads": "--threads", "batch": "--batch-size",
    "ubatch": "--ubatch-size", "no_repack": "--no-repack", "temperature": "--temp", "top_k": "--top-k", "top_p": "--top-p",
    "min_p": "--min-p", "repeat_penalty": "--repeat-penalty", "presence_penalty": "--presence-penalty",
    "frequency_penalty": "--frequency-penalty", "seed": "--seed", "predict": "--predict",
    "reasoning_budget": "--reasoning-budget", "chat_template_kwargs": "--chat-template-kwargs",
    "cpu_moe": "--cpu-moe", "n_cpu_moe": "--n-cpu-moe", "override_tensor": "--override-tensor",
    "stop": "--reverse-prompt", "special": "--special", "swa_full": "--swa-full", "state_memory": "--cache-ram",
}  # fmt: skip
"""llama-server's flag for each setting that it has."""

DRAFT_FLAGS = {
    "draft": "--model-draft", "gpu_layers_draft": "--n-gpu-layers-draft", "device_draft": "--device-draft",
    "cache_type_k_draft": "--cache-type-k-draft", "cache_type_v_draft": "--cache-type-v-draft",
    "threads_draft": "--threads-draft", "cpu_moe_draft": "--cpu-moe-draft", "n_cpu_moe_draft": "--n-cpu-moe-draft",
    "override_tensor_draft": "--override-tensor-draft",
}  # fmt: skip
"""The same, where a draft model is used."""

SPECULATION_FLAGS = {"draft_max": "--spec-draft-n-max", "draft_min": "--spec-draft-n-min", "p_min": "--spec-draft-p-min"}
"""The same, for the drafts of a draft model."""

OTHER_DEFAULTS = ("ctx_size", "draft_max", "p_min")
"""Settings whose default is another one in llama-server: always written."""

ALWAYS_A_COMMENT = ("drafter", "policy")
"""What llama-server's nearest flags would not bring back."""

LOOKUP, LOOKUP_LENGTH = "ngram-simple", "--spec-ngram-simple-size-m"
"""llama-server's lookup of repeated text that is nearest to the suffix drafter, and the flag that bounds its drafts, as
--spec-draft-n-max does not."""


class Exported(NamedTuple):
    """`arguments`: each flag with its value, if it has one. `lacking`: settings that llama-server lacks, as lines of TOML."""

    arguments: tuple[tuple[str, ...], ...]
    lacking: tuple[str, ...]

    def comments(self) -> list[str]:
        """The lines of comments, without the sign that begins them."""
        return [f"spectui: {line}" for line in self.lacking]


def exported(settings: Configuration, name: str, heads: str = "") -> Exported:
    """The effective settings of a profile as llama-server can be told them. Raises UsageError if they name no model.

    `heads`: llama-server's name of the heads that draft for its target, which are in its file or in the draft's.
    """
    if settings.setup.model is None:
        raise UsageError(f"Profile {name!r} names no model, which llama-server needs: give one with -m, or in the file.")
    drafters = _drafters(settings.knobs, settings.setup, heads)
    flags = FLAGS | (SPECULATION_FLAGS | DRAFT_FLAGS if any(drafter.startswith("draft-") for drafter in drafters) else {})
    if drafters == (LOOKUP,):
        flags |= {"draft_max": LOOKUP_LENGTH}
    arguments: list[tuple[str, ...]] = []
    lacking: list[str] = []
    for key, row in config.SETTINGS.items():
        holder = {Knobs: settings.knobs, Setup: settings.setup, UiSettings: settings.ui}[row.owner]
        value, origin = getattr(holder, key), settings.origins[key]
        # A setting of the window belongs to the profile only if it is set there.
        given = origin.startswith("profile ") if row.owner is UiSettings else origin != "default"
        if key in flags and _expressible(key, value):
            if given or key in OTHER_DEFAULTS:
                arguments += _arguments(flags[key], key, value)
        elif given or key in ALWAYS_A_COMMENT:
            lacking.append(f"{title(key)} = {toml(value)}")
    if drafters:
        arguments.append(("--spec-type", ",".join(drafters)))
    if len(drafters) > 1:
        arguments.append((LOOKUP_LENGTH, str(settings.knobs.draft_max)))
    return Exported(tuple(arguments), tuple(lacking))


def _drafters(knobs: Knobs, setup: Setup, heads: str) -> tuple[str, ...]:
    """What drafts, by llama-server's names. It asks a lookup before the draft model, whatever their order."""
    if knobs.draft_max == 0:
        return ()
    lookup = (LOOKUP,) if knobs.drafter in ("auto", "suffix") else ()
    if heads:
        return (*lookup, *((heads,) if knobs.drafter in ("auto", "model", "mtp") else ()))
    model = ("draft-simple",) if setup.draft and knobs.drafter in ("auto", "model") else ()
    return (*lookup, *model)


def _expressible(key: str, value: Any) -> bool:
    if key == "threads_draft":
        return bool(value > 0)  # 0 is all cores to llama-server, and the target's number here
    return value not in (None, "", ()) and not (
        key in ("no_repack", "numa", "special", "cpu_moe", "cpu_moe_draft", "swa_full") and value == "off"
    )


def _arguments(flag: str, key: str, value: Any) -> list[tuple[str, ...]]:
    if key in ("no_repack", "special", "cpu_moe", "cpu_moe_draft", "swa_full"):
        return [(flag,)]
    if key == "stop":  # llama-server reads escapes in it
        return [(flag, escaped(part)) for part in value]
    if key in ("gpu_layers", "gpu_layers_draft") and value < 0:
        return [(flag, {-1: "auto", -2: "all"}[value])]
    return [(flag, str(value))]


def toml(value: Any) -> str:
    """A value as TOML writes it on one line. A $ is escaped: llama-swap would look for a macro."""
    import tomlkit

    value = list(value) if isinstance(value, tuple) else value
    return tomlkit.item(value if value is not None else "").as_string().replace("$", "\\u0024")
