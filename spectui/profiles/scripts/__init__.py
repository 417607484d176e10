"""Commands of llama.cpp in the files that people start it with: shell, Windows, systemd, launchd and containers.

Each reader ends in `started.Started`. Nothing is run: what only a run can tell is marked as unknown (`started.unknown`).
"""
