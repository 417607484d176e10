"""Drafters: the draft model, and repetitions of the text."""
