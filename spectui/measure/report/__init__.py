"""What was measured, as text, JSON and charts."""
