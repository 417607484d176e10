"""What was measured, as text and JSON."""
