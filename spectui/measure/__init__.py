"""Measures and tunes speculation: benchmarks, traces and what-if estimates. Without a widget."""
