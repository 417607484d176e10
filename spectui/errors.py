"""The one exception tree. Each message is one sentence that says what is wrong and what to do."""

from __future__ import annotations


class SpectuiError(Exception):
    """Something a person can cause and mend at run time. The command line exits with 1."""

    exit_code = 1


class LoadError(SpectuiError):
    """Models cannot be loaded. A subclass says what may help."""

    without_draft = False
    """The target alone would load."""
    without_servers = False
    """The models may load on this machine alone."""


class DraftError(LoadError):
    """The draft cannot be used; the target alone could."""

    without_draft = True


class RefusedError(SpectuiError):
    """What was asked of a reply is wrong, so it would fail again."""


class UsageError(SpectuiError):
    """A flag, a configuration value or a file name that cannot be used. The command line exits with 2."""

    exit_code = 2


class ExistsError(UsageError):
    """What was to be written is there already, and nobody allowed to replace it."""


def unless_limited(advice: str) -> str:
    """`advice` about memory or libraries; where the shell limits the address space, to raise that limit first."""
    try:
        import resource
    except ImportError:  # Windows
        return advice
    if resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY:
        return advice
    return "the address space is limited (ulimit -v), so raise that limit"
