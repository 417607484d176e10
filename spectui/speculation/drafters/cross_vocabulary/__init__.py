"""Drafting with a model that has another vocabulary than the target."""
