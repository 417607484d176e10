"""Where spectui replaces parts of Textual. Everything that needs a private name of Textual belongs here."""
