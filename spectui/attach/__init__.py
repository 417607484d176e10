"""The engine behind a server's URL: chunks of its stream in, the same events out."""
