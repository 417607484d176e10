"""The chat screen and what a person does on it."""
