"""The best fixed setting of a pair, found by measuring. Without a widget."""
