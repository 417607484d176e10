"""Where spectui replaces parts of Textual. Everything that needs a private name of Textual belongs here.

docs/developers/contributing.md says which of these parts work around a fault of Textual.
"""
