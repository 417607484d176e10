"""Commands that start llama-server: in scripts and services, in containers, and of what runs. Nothing is run to read them."""
