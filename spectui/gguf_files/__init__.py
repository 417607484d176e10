"""What is read from GGUF files without llama.cpp: header, check, catalogue, compatibility, tiny models."""
