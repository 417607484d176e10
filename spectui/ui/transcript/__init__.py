"""The conversation as it is drawn: blocks, wrapping, the cursor on a token."""
