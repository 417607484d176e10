"""What was measured, as text, JSON and plots."""
