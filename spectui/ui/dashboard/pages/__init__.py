"""What the panel shows: a file for each page, and their base."""
