"""What must not be lost: conversations on disk, and what is known of a run that died."""
