"""Where spectui replaces parts of Textual. Everything that needs a private name of Textual belongs here.

Each file names the faults of Textual that it works around; docs/developers/contributing.md names those in other rooms.
"""
