"""Measures and tunes speculation: benchmarks. Without a widget."""
