"""The conversations on disk: listed, opened, branched, renamed, deleted, exported."""
