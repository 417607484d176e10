"""The texts of prompts and replies: what they carry, and what they are made of."""
