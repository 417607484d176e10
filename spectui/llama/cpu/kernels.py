"""What llama.cpp's CPU code was built for and finds here. Importing this loads no library."""

from __future__ import annotations

import re


def features_of(system_info: str) -> frozenset[str]:
    """The features that llama_print_system_info lists."""
    return frozenset(re.findall(r"(\w+) = 1\b", system_info))
