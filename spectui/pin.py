"""Which llama.cpp spectui is made for, and what that one can hold.

Where the pin moves: python -m tests.generators.pin DIR.
"""

from __future__ import annotations

LLAMA_CPP_PYTHON = "0.3.36"
LLAMA = "0.5.0-dev"
"""What its library says of itself (llama_version)."""
GGML = "0.25.3"
"""The same of ggml (ggml_version)."""

MOST_LAYERS = 512
MOST_EXPERTS = 1024
MOST_DIMENSIONS = 4
LONGEST_TENSOR_NAME = 63
GGUF_VERSION = 3
"""The newest version of GGUF that it reads; version 2 is the oldest."""

ONE_HEAD = "bailingmoe3 cohere2moe deepseek2 deepseek32 deepseek4 glm-dsa glm4moe nemotron_h_moe qwen35 qwen35moe qwen3next"
"""The architectures whose own head (multi-token prediction) can draft..."""
SEVERAL_HEADS = "hy_v3 mimo2 step35"
"""... and those whose heads can, however many they have. It would end the process over others."""

LAYER_ROWS = (
    "bailingmoe3 deepseek4 gemma4 gpt-oss hunyuan-dense hunyuan_vl lfm2 lfm2moe llama llama-embed mimo2 minimax-01 minimax-m2 "
    "muse-glimmer nanbeige nemotron_h nemotron_h_moe qwen3 qwen35 qwen35moe qwen3moe qwen3next"
)
"""The architectures that give the rows that go into each of their layers, which EAGLE-3 and DFlash read..."""
LAST_ROWS = "bailingmoe3 deepseek4 gemma4 gpt-oss mimo2 nemotron_h nemotron_h_moe qwen35 qwen35moe qwen3next"
"""... and those of them that give what comes out of the last. Another would end the process."""
