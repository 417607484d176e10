"""The text area for prompts."""
