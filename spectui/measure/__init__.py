"""Measures and tunes speculation: benchmarks and traces. Without a widget."""
