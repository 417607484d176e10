"""ggml's devices, on this machine and on others, and the memory that models and contexts take on them."""
