"""Rounds as bytes: in memory, and as rows of the database."""
