"""Traces: every round of a chat in a file, to be read and played again."""
