"""Traces: every round of a chat in a file, to be played again, and to estimate what other settings would have given."""
