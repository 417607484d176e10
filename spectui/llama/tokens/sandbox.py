"""jinja2's immutable sandbox with limits: a chat template is a program that comes with a file from anywhere.

The sandbox prevents access to anything outside of the template. It does not prevent that a template fills the memory or
never ends (`'x' * 10**9`, doubled strings, nested loops), and either would end the whole chat. So operations that can make
a value larger check its size first, loop iterations and calls are counted, and the time is limited.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from time import monotonic
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

MOST_SOURCE = 100_000
"""Characters of a template: four times the longest real ones. To compile it, jinja2 needs 30 us and 2 kB for each."""
MOST_WRITTEN = 16_000_000
"""Characters that a template may write, and that a value may have: ten times the longest context."""
MOST_PRODUCT = 256_000_000
"""Largest product of the sizes of a call's arguments: `replace`, `join`, `center` and others write at most as much."""
MOST_STEPS = 1_000_000
MOST_BITS = 4096
SECONDS = 5.0

_PICKING = ("map", "select", "reject", "selectattr", "rejectattr")
"""Filters that select from a list, or call other filters with its members: they make nothing larger themselves."""
_WIDE = re.compile(r"\d{6,}|%[^a-zA-Z%]*\*")
"""A format width that would write a megabyte, or one that is an argument."""


class LimitExceeded(SecurityError):
    """The template needs more memory or time than a prompt can need."""


class BoundedEnvironment(ImmutableSandboxedEnvironment):
    """For one template at a time: the limits are those of one rendering."""

    intercepted_binops = frozenset(("+", "*", "**", "%"))

    def __init__(self, extensions: Iterable[Any] = ()) -> None:
        super().__init__(
            loader=jinja2.BaseLoader(),
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[loopcontrols, *extensions],
            finalize=_finalize,
        )
        self.globals.pop("lipsum")
        self.filters["spectui_concat"] = lambda parts: "".join(map(str, parts))
        self.filters["spectui_checked"] = lambda value: value
        self._begin()

    def compiled(self, source: str) -> jinja2.Template:
        """The template, for `rendered`. Raises what jinja2 raises, or LimitExceeded."""
        if len(source) > MOST_SOURCE:
            raise LimitExceeded(f"it has {len(source)} characters")
        filters: Any = self.filters  # jinja2 does not declare their types
        tests: Any = self.tests
        filters.update({name: self._bounded(each, name in _PICKING) for name, each in filters.items()})
        tests.update({name: self._bounded(each, True) for name, each in tests.items()})
        return self.from_string(source)

    def rendered(self, template: jinja2.Template, **names: Any) -> str:
        """The text that the template writes. Raises what the template raises, or LimitExceeded."""
        self._begin()
        return template.render(**names)

    def _begin(self) -> None:
        self._steps = 0
        self._written = 0
        self._deadline = monotonic() + SECONDS

    def step(self, text: int = 0) -> str:
        """Count an iteration of a loop, which writes `text` characters of the template's own text."""
        self._steps += 1
        self.write(text)
        if self._steps > MOST_STEPS or monotonic() > self._deadline:
            raise LimitExceeded("it does not come to an end")
        return ""

    def write(self, characters: int) -> None:
        """Count written characters."""
        self._written += characters
        if self._written > MOST_WRITTEN:
            raise LimitExceeded("it writes too much")

    def call(__self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        """jinja2's hook for a call."""
        __self.step()
        receiver = getattr(__obj, "__self__", None)
        if getattr(__obj, "__name__", "") == "strftime_now":
            _check_formats(*args)
        _check_product((receiver, *args, *kwargs.values()))
        return super().call(__context, __obj, *args, **kwargs)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """jinja2's hook for `format` and `format_map`."""
        wrapper = super().wrap_str_format(value)
        if wrapper is not None:
            _check_formats(value.__self__)
        return wrapper

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """jinja2's hook for the operators that can make a value larger."""
        numbers = isinstance(left, int) and isinstance(right, int)
        if operator == "%" and isinstance(left, str):
            _check_formats(left)
        if numbers and operator in ("*", "**"):
            bits = right if operator == "**" else right.bit_length()
            if max(left.bit_length(), 1) * abs(bits) > MOST_BITS and left.bit_length() + abs(bits) > MOST_BITS // 8:
                raise LimitExceeded("a number is too large")
        elif operator == "*":
            _check_product((left, right))
        elif not numbers:
            size_of((left, right))
        return super().call_binop(context, operator, left, right)

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        template = super()._parse(source, name, filename)
        _Bounds().visit(template)
        template.set_environment(self)
        return template

    def _bounded(self, function: Callable[..., Any], picks: bool) -> Callable[..., Any]:
        """A filter or a test that checks the size of its arguments. `wraps` keeps jinja2's marker of a first argument."""

        @functools.wraps(function)
        def bounded(*args: Any, **kwargs: Any) -> Any:
            self.step()
            if function.__name__ == "do_format":
                _check_formats(*args)
            (size_of if picks else _check_product)((*args, *kwargs.values()))
            return function(*args, **kwargs)

        return bounded


class _Bounds(NodeTransformer):
    """Insert checks where jinja2 has no hook: in loops, `~`, and comparisons of nested lists."""

    def visit_For(self, node: nodes.For) -> nodes.For:
        self.generic_visit(node)
        text = sum(len(data.data) for part in node.body for data in _texts(part))
        step = nodes.EnvironmentAttribute("step", lineno=node.lineno)
        call = nodes.Call(step, [nodes.Const(text)], [], None, None, lineno=node.lineno)
        node.body.insert(0, nodes.ExprStmt(call, lineno=node.lineno))
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Filter:
        self.generic_visit(node)
        return _filter("spectui_concat", nodes.List(node.nodes, lineno=node.lineno))

    def visit_Compare(self, node: nodes.Compare) -> nodes.Compare:
        self.generic_visit(node)
        node.expr = _filter("spectui_checked", node.expr)
        return node

    def visit_Operand(self, node: nodes.Operand) -> nodes.Operand:
        self.generic_visit(node)
        node.expr = _filter("spectui_checked", node.expr)
        return node


def size_of(value: Any) -> int:
    """Characters in a value and its members, plus 16 for each. Raises LimitExceeded if there are more than MOST_WRITTEN."""
    total, rest = 0, [value]
    while rest:
        each = rest.pop()
        total += 16
        if isinstance(each, str | bytes):
            total += len(each)
        elif isinstance(each, dict):
            rest += each.keys()
            rest += each.values()
        elif isinstance(each, list | tuple | set | frozenset):
            rest += each
        if total + 16 * len(rest) > MOST_WRITTEN:
            raise LimitExceeded("a value is too large")
    return total


@jinja2.pass_environment
def _finalize(environment: BoundedEnvironment, value: Any) -> Any:
    # The check is before the conversion to text. With the environment as argument, jinja2 does not call this at compile time.
    environment.write(size_of(value))
    return value


def _check_product(values: Iterable[Any]) -> None:
    product = 1
    for value in values:
        if isinstance(value, int):
            product *= max(1, abs(value))
        elif isinstance(value, str | bytes):
            product *= max(1, len(value))
        elif isinstance(value, dict | list | tuple | set | frozenset):
            product *= size_of(value)
        if product > MOST_PRODUCT:
            raise LimitExceeded("a value would be too large")


def _check_formats(*values: Any) -> None:
    if any(isinstance(value, str) and _WIDE.search(value) for value in values):
        raise LimitExceeded("a format is too wide")


def _filter(name: str, node: nodes.Expr) -> nodes.Filter:
    return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)


def _texts(node: nodes.Node) -> Iterable[nodes.TemplateData]:
    return [node] if isinstance(node, nodes.TemplateData) else node.find_all(nodes.TemplateData)
