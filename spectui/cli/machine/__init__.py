"""Commands about this machine: its devices, and what the build of llama.cpp makes of them."""
