"""A conversation without a widget: its messages, the actions on it, and its figures."""
