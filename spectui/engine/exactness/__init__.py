"""Is the text the one of plain decoding? `verify` decodes it again, `near_tie` explains the first difference."""
