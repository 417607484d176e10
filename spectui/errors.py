"""The one exception tree. Each message is one sentence that says what is wrong and what to do."""

from __future__ import annotations


class SpectuiError(Exception):
    """Something a person can cause and mend at run time. The command line exits with 1."""

    exit_code = 1


class UsageError(SpectuiError):
    """A flag, a configuration value or a file name that cannot be used. The command line exits with 2."""

    exit_code = 2
