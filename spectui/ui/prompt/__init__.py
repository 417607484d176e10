"""The box that a prompt is written in."""
