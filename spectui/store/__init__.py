"""Conversations and prompts on disk, and what is known of a run that died."""
