"""A conversation without a widget: what it holds, what can be done with it, and the figures about it."""
