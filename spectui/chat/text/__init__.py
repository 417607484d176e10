"""The texts of prompts and replies: attachments, thinking and code."""
