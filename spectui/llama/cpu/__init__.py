"""llama.cpp's kernels on the CPU: what they are fast at, and which of them round as single rows do."""
