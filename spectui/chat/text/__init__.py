"""The texts of prompts and replies: attachments, thinking, prose and code."""
