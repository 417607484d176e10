"""`spectui bench`: settings times prompts, measured as rounds and written down run by run. Without a widget."""
