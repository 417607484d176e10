"""Which kernels multiply a model's weights on the CPU: spectui's or llama.cpp's."""
