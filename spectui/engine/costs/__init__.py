"""What passes of the loaded models cost: measured once, kept on disk."""
