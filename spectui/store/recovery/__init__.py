"""After a crash: what is known of the run that died, and what can still be read of a damaged file."""
