"""spectui's own kernels for weights on x86 CPUs: a library that ggml loads as a backend.

`src/` is its C++, `build` compiles it, `plugin` checks and loads it.
"""
