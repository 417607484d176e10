"""Draws the conversation: blocks, wrapping, and the token cursor."""
