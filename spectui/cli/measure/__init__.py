"""Commands that measure and tune."""
