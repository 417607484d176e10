"""Conversations and prompts on disk, and the records of a run that crashed."""
