"""spectui: a terminal chat for local models that makes speculative decoding fast, visible and steerable."""

__version__ = "0.1.0"
