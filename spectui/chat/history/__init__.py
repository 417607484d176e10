"""The open conversation, and those on disk: listed, opened, branched, renamed, deleted, exported."""
