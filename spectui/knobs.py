"""Every setting, in one place: what a value is called, its range, its default and its flags.

Two frozen dataclasses. `Knobs` act on the next round of a running reply; `Setup` acts when models are loaded. Each field
carries a `Spec`. The command line, the environment, the configuration file, the sliders and docs/settings.md are made from
the specs, so a knob is added here and nowhere else. The flags have llama.cpp's names, old and new, so that a line written
for llama-server can be pasted.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from spectui.errors import UsageError

LONGEST_QUOTED = 60
"""A message quotes at most this many characters of a wrong value."""


@dataclass(frozen=True)
class Spec:
    """Everything about one setting except its value."""

    help: str
    flags: tuple[str, ...]
    low: float | None = None
    high: float | None = None
    step: float | None = None
    choices: tuple[str, ...] = ()
    metavar: str = ""
    section: str = ""
    bare: str = ""
    """The value of a flag that is given without one; "" if it needs one."""
    adds: bool = False
    """A flag that is given again adds to the value, behind a comma."""
    words: Mapping[float, str] = field(default_factory=dict)
    """What some numbers are called: -1 "random". The word can be given for the number."""


def setting(default: Any, help: str, *flags: str, bounds: tuple[float, ...] = (), **spec: Any) -> Any:
    """A dataclass field that carries a `Spec`. `bounds`: the least value, the largest, and a slider's step if it has one."""
    named: dict[str, Any] = dict(zip(("low", "high", "step"), bounds, strict=False))
    return field(default=default, metadata={"spec": Spec(help=help, flags=flags, **named, **spec)})


_models, _devices, _speculation, _sampling = (
    partial(setting, section=name) for name in ("models", "devices", "speculation", "sampling")
)
_SWITCH: dict[str, Any] = {"choices": ("off", "on"), "bare": "on"}
_CELLS = ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")
_SPLITS = ("none", "layer", "row", "tensor")


@dataclass(frozen=True)
class Knobs:
    """The live settings: immutable, replaced whole, read once per round."""

    drafter: str = _speculation(
        "auto", "who drafts: the draft model, the target's own heads (mtp), repetitions (suffix), or all of these (auto)",
        "--drafter", choices=("auto", "model", "mtp", "suffix", "off"),
    )  # fmt: skip
    policy: str = _speculation(
        "auto", "how long drafts are: what pays (auto), draft-max and p-min (fixed), or expected value (expected)", "--policy",
        choices=("auto", "fixed", "expected"),
    )  # fmt: skip
    draft_max: int = _speculation(
        16, "most tokens drafted in a round", "--draft-max", "--spec-draft-n-max", "--draft-n", bounds=(0, 48, 1)
    )
    draft_min: int = _speculation(
        0, "a shorter draft than this is ignored", "--draft-min", "--spec-draft-n-min", "--draft-n-min", bounds=(0, 48, 1)
    )
    p_min: float = _speculation(
        0.75, "policy fixed: drafting stops before a token less likely than this", "--draft-p-min", "--p-min",
        "--spec-draft-p-min", bounds=(0.0, 1.0, 0.05),
    )  # fmt: skip
    temperature: float = _sampling(
        0.8, "how freely tokens are chosen: 0 always takes the likeliest", "--temp", "--temperature", bounds=(0.0, 5.0, 0.05)
    )
    top_k: int = _sampling(40, "keep the k likeliest tokens (0: all)", "--top-k", bounds=(0, 1000, 1), words={0: "all"})
    top_p: float = _sampling(0.95, "keep the likeliest tokens that add up to p", "--top-p", bounds=(0.0, 1.0, 0.01))
    min_p: float = _sampling(
        0.05, "drop tokens less likely than this share of the likeliest", "--min-p", bounds=(0.0, 1.0, 0.01)
    )
    repeat_penalty: float = _sampling(
        1.0, "divide the logits of the last 64 tokens by this", "--repeat-penalty", bounds=(0.5, 3.0, 0.05)
    )
    presence_penalty: float = _sampling(
        0.0, "take this from the logit of each of the last 64 tokens", "--presence-penalty", bounds=(-2.0, 2.0, 0.1)
    )
    frequency_penalty: float = _sampling(
        0.0,
        "take this from a logit for each time that its token is in the last 64",
        "--frequency-penalty",
        bounds=(-2.0, 2.0, 0.1),
    )
    seed: int = _sampling(
        -1, "the text depends on the target and this number alone (-1: a new one for each reply)", "-s", "--seed",
        bounds=(-1, 2**32 - 1, 1), words={-1: "random"},
    )  # fmt: skip
    predict: int = _sampling(
        -1, "most tokens in a reply (-1: until the model ends it)", "-n", "--predict", "--n-predict",
        bounds=(-1, 2**31 - 1, 16), words={-1: "no limit"},
    )  # fmt: skip
    reasoning_budget: int = _sampling(
        -1, "most tokens that the model thinks, then its thinking is ended (-1: no limit, 0: none)", "--reasoning-budget",
        bounds=(-1, 2**31 - 1, 16), words={-1: "no limit", 0: "none"},
    )  # fmt: skip
    chat_template_kwargs: str = _sampling(
        "", 'values for the chat template of the next prompts, a JSON object such as {"enable_thinking": false}',
        "--chat-template-kwargs", metavar="JSON",
    )  # fmt: skip
    stop: tuple[str, ...] = _sampling(
        (), "texts that end the reply, which is cut before them; several by giving the flag again", "-r", "--reverse-prompt",
        "--stop", metavar="TEXT",
    )  # fmt: skip

    context_full: str = _models(
        "stop", "where the context is full: end the reply (stop), or drop the oldest turns of the chat and go on (drop-oldest)",
        "--context-full", choices=("stop", "drop-oldest"),
    )  # fmt: skip

    def checked(self) -> Knobs:
        """These knobs, if each is in range and they fit together. Raises UsageError with the sentence to show."""
        _check_all(self)
        if self.draft_min > self.draft_max:
            raise UsageError(
                f"draft-min {self.draft_min} is above draft-max {self.draft_max}, so every draft would be ignored: "
                "lower draft-min or raise draft-max."
            )
        return self


@dataclass(frozen=True)
class Setup:
    """Settings that are fixed while a pair of models is loaded."""

    model: str | None = _models(None, "the target model, a GGUF file", "-m", "--model", metavar="FILE")
    draft: str | None = _models(
        None, "the draft model, a GGUF file, preferably with the target's vocabulary", "-md", "--model-draft", "--draft",
        "--draft-model", "--spec-draft-model", metavar="FILE",
    )  # fmt: skip
    server: str = _models(
        "", "chat with the models of a server that runs, such as http://localhost:8080, and load none here", "--server",
        metavar="URL",
    )  # fmt: skip
    server_model: str = _models("", "the server's model, where it has several", "--server-model", metavar="NAME")
    server_key_file: str = _models(
        "", "a file with the key that the server asks for (or the variable SPECTUI_API_KEY has it)", "--server-key-file",
        metavar="FILE",
    )  # fmt: skip
    ctx_size: int = _models(
        4096, "context in tokens (0: what the model was trained with)", "-c", "--ctx-size", bounds=(0, 10_000_000),
        words={0: "as trained"},
    )  # fmt: skip
    ctx_size_draft: int = _models(
        0, "the draft's context in tokens (0: the target's)", "-cd", "--ctx-size-draft", "--spec-draft-ctx-size",
        bounds=(0, 10_000_000),
    )  # fmt: skip
    gpu_layers: int = _devices(
        -1, "layers of the target on GPUs (-1, auto: as many as fit; -2, all)", "-ngl", "--gpu-layers", "--n-gpu-layers",
        bounds=(-2, 9999), words={-1: "auto", -2: "all"},
    )  # fmt: skip
    gpu_layers_draft: int = _devices(
        -1, "layers of the draft on GPUs (-1, auto: as many as fit; -2, all)", "-ngld", "--gpu-layers-draft",
        "--n-gpu-layers-draft", "--spec-draft-ngl", bounds=(-2, 9999), words={-1: "auto", -2: "all"},
    )  # fmt: skip
    device: str = _devices(
        "", "devices of the target, with commas (none: CPU alone; empty: all GPUs)", "-dev", "--device", metavar="NAMES"
    )
    device_draft: str = _devices(
        "", "devices of the draft, with commas (none: CPU alone; empty: the GPU with most room)", "-devd", "--device-draft",
        "--spec-draft-device", metavar="NAMES",
    )  # fmt: skip
    rpc: str = _devices(
        "", "RPC servers of llama.cpp on other machines, whose devices are added, with commas", "--rpc", metavar="HOST:PORT,..."
    )
    tensor_split: str = _devices("", "shares of the target per GPU, with commas", "-ts", "--tensor-split", metavar="N,N,...")
    tensor_split_draft: str = _devices(
        "", "shares of the draft per GPU, with commas", "-tsd", "--tensor-split-draft", metavar="N,N,..."
    )
    split_mode: str = _devices("layer", "how the target is split over GPUs", "-sm", "--split-mode", choices=_SPLITS)
    split_mode_draft: str = _devices("layer", "how the draft is split over GPUs", "-smd", "--split-mode-draft", choices=_SPLITS)
    main_gpu: int = _devices(0, "the GPU used with split mode none", "-mg", "--main-gpu", bounds=(0, 63))
    main_gpu_draft: int = _devices(0, "the draft's GPU with its split mode none", "-mgd", "--main-gpu-draft", bounds=(0, 63))
    cpu_moe: str = _devices("off", "keep the experts of a mixture in the host's memory", "-cmoe", "--cpu-moe", **_SWITCH)
    cpu_moe_draft: str = _devices(
        "off", "the same for the draft", "-cmoed", "--cpu-moe-draft", "--spec-draft-cpu-moe", **_SWITCH
    )
    n_cpu_moe: int = _devices(0, "the same for the experts of the first N layers", "-ncmoe", "--n-cpu-moe", bounds=(0, 9999))
    n_cpu_moe_draft: int = _devices(
        0, "the same for the draft's", "-ncmoed", "--n-cpu-moe-draft", "--spec-draft-n-cpu-moe", "--spec-draft-ncmoe",
        bounds=(0, 9999),
    )  # fmt: skip
    override_tensor: str = _devices(
        "", "buffers for tensors by regular expressions, such as exps=CPU; several with commas or flags", "-ot",
        "--override-tensor", metavar="PATTERN=BUFFER,...", adds=True,
    )  # fmt: skip
    override_tensor_draft: str = _devices(
        "", "the same for the draft", "-otd", "--override-tensor-draft", "--spec-draft-override-tensor",
        metavar="PATTERN=BUFFER,...", adds=True,
    )  # fmt: skip
    flash_attn: str = _devices("auto", "flash attention", "-fa", "--flash-attn", choices=("auto", "on", "off"), bare="on")
    flash_attn_draft: str = _devices(
        "auto", "flash attention of the draft (auto: the target's setting)", "-fad", "--flash-attn-draft",
        choices=("auto", "on", "off"), bare="on",
    )  # fmt: skip
    cache_type_k: str = _devices("f16", "type of the target's K cells", "-ctk", "--cache-type-k", choices=_CELLS)
    cache_type_v: str = _devices("f16", "type of the target's V cells", "-ctv", "--cache-type-v", choices=_CELLS)
    cache_type_k_draft: str = _devices(
        "f16", "type of the draft's K cells", "-ctkd", "--cache-type-k-draft", "--spec-draft-type-k", choices=_CELLS
    )
    cache_type_v_draft: str = _devices(
        "f16", "type of the draft's V cells", "-ctvd", "--cache-type-v-draft", "--spec-draft-type-v", choices=_CELLS
    )
    threads: int = _devices(0, "CPU threads of the target (0: one a core)", "-t", "--threads", bounds=(-1, 1024))
    threads_draft: int = _devices(
        0, "CPU threads of the draft (0: the target's)", "-td", "--threads-draft", "--spec-draft-threads", bounds=(-1, 1024)
    )
    batch: int = _devices(2048, "most tokens handed to llama.cpp at once", "-b", "--batch-size", bounds=(1, 65536))
    ubatch: int = _devices(512, "most tokens evaluated at once", "-ub", "--ubatch-size", bounds=(1, 65536))
    numa: str = _devices(
        "off", "how CPU threads use the memory of several sockets, as llama.cpp means it", "--numa",
        choices=("off", "distribute", "isolate", "numactl"),
    )  # fmt: skip
    no_repack: str = _devices(
        "off", "keep the weights as they are in the file: repacked ones have faster kernels", "-nr", "--no-repack", **_SWITCH
    )
    kernels: str = _devices(
        "auto", "what multiplies weights on a CPU: spectui's kernels, llama.cpp's, or spectui's where they can be used (auto)",
        "--kernels", choices=("auto", "llama.cpp", "spectui"),
    )  # fmt: skip
    swa_full: str = _devices(
        "off", "keep all cells of layers that look back over a sliding window only: it takes more memory, but nothing is"
        " read again when a long reply is taken back", "--swa-full", **_SWITCH,
    )  # fmt: skip
    requantise_draft: str = _speculation(
        "auto", "on a CPU, draft with a copy of the draft in Q4_0 where that is faster, made once (spectui forget deletes"
        " it), and look for its likeliest tokens by the signs of a large output matrix", "--requantise-draft",
        "--requantize-draft", choices=("auto", "off"),
    )  # fmt: skip
    async_draft: str = _speculation(
        "auto", "while the target computes, let the draft go on from its own guess; auto: where it has a device of its own",
        "--async-draft", choices=("auto", "on", "off"), bare="on",
    )  # fmt: skip
    strict: str = _speculation(
        "off", "make the text plain decoding's bit for bit: use only passes whose logits do not depend on their size",
        "--strict", **_SWITCH,
    )  # fmt: skip
    no_profile: str = _speculation(
        "off", "do not measure at load what passes cost; measure it in the rounds of replies", "--no-profile", **_SWITCH
    )
    remember: str = _speculation(
        "off", "draft also from past replies of other conversations, saved on disk (spectui forget deletes them)", "--remember",
        **_SWITCH,
    )  # fmt: skip
    state_memory: int = _models(
        -1, "MiB of memory for what was read of other conversations (-1: an eighth of what is free, 2 GiB at most; 0: none)",
        "--state-memory", "--cache-ram", "-cram", bounds=(-1, 1_000_000), metavar="MIB",
    )  # fmt: skip
    keep_read: str = _models(
        "auto", "keep on disk what was read of conversations, 4 GB at most (spectui forget deletes it); auto: in chats that"
        " are saved", "--keep-read", choices=("auto", "on", "off"), bare="on",
    )  # fmt: skip
    system: str = _models("", "system prompt", "-sys", "--system-prompt", metavar="TEXT")
    no_template: str = _models(
        "off", "continue the texts as they are, without the chat template: for base models", "--no-template", "-no-cnv",
        "--no-conversation", **_SWITCH,
    )  # fmt: skip
    special: str = _models("off", "show the names of control tokens in replies", "-sp", "--special", **_SWITCH)

    def checked(self) -> Setup:
        """This set-up, if each value is in range. Raises UsageError with the sentence to show."""
        _check_all(self)
        return self

    def draft_alone(self) -> Setup:
        """The draft as a target without one, placed as the draft is: by default on one GPU."""
        names = ["gpu_layers", "device", "cpu_moe", "n_cpu_moe", "override_tensor", "cache_type_k", "cache_type_v"]
        names += ("split_mode", "tensor_split", "main_gpu") if self.device_draft else ()
        own: dict[str, Any] = {"split_mode": "none", "tensor_split": "", "main_gpu": 0}
        own |= {name: getattr(self, f"{name}_draft") for name in names}
        own |= {name: getattr(self, f"{name}_draft") or getattr(self, name) for name in ("ctx_size", "threads")}
        flash = self.flash_attn if self.flash_attn_draft == "auto" else self.flash_attn_draft
        return dataclasses.replace(self, model=self.draft, draft=None, flash_attn=flash, **own)

    def same_models(self, other: Setup) -> bool:
        """Whether both name the same models and servers, so that one placement of them can replace the other if that fails."""
        return (self.model, self.draft, self.rpc, self.server) == (other.model, other.draft, other.rpc, other.server)


def specs(owner: type[Knobs] | type[Setup]) -> Iterator[tuple[str, Any, Spec]]:
    """(key, default, spec) of each setting of `Knobs` or `Setup`, in order."""
    for spec_field in dataclasses.fields(owner):
        yield spec_field.name, spec_field.default, spec_field.metadata["spec"]


def spec_of(owner: type[Knobs] | type[Setup], key: str) -> Spec:
    """The spec of one setting."""
    spec: Spec = owner.__dataclass_fields__[key].metadata["spec"]
    return spec


def title(key: str) -> str:
    """A setting's name as people write it: draft_max -> draft-max."""
    return key.replace("_", "-")


def json_object(text: str) -> dict[str, Any] | None:
    """The object that a setting holds as JSON, {} for ""; None if it is none."""
    try:
        value = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def check(key: str, value: Any, spec: Spec) -> None:
    """Raise UsageError if a value is outside its range, is not one of its choices, or is no JSON where it has to be."""
    if spec.metavar == "JSON" and json_object(value) is None:
        raise UsageError(f'{title(key)} is a JSON object such as {{"enable_thinking": false}}, not {value[:60]!r}.')
    if spec.choices and value not in spec.choices:
        raise UsageError(f"{title(key)} is one of {', '.join(spec.choices)}, not {value!r}.")
    if isinstance(value, bool | str) or value is None or spec.low is None or spec.high is None:
        return
    if not spec.low <= value <= spec.high:
        raise UsageError(f"{title(key)} must be between {spec.low:g} and {spec.high:g}, not {quoted(value)}.")


def quoted(value: object) -> str:
    """A wrong value in a sentence."""
    try:
        text = f"{value:g}" if isinstance(value, float) else repr(value)
    except ValueError:  # Python writes no number of more than 4300 digits
        return "so large a number"
    return text if len(text) <= LONGEST_QUOTED else text[:LONGEST_QUOTED] + "…"


def _check_all(settings: Knobs | Setup) -> None:
    for key, _, spec in specs(type(settings)):
        check(key, getattr(settings, key), spec)
