"""The chat without a window: line by line, with commands after a slash."""
