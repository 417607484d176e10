"""What was measured, as text, CSV and JSON."""
