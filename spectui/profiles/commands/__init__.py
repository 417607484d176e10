"""What starts llama-server: a script, a service, a line, or a process that runs."""
