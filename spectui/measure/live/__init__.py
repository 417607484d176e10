"""A command that measures, in a process of its own, and what it has found so far."""
