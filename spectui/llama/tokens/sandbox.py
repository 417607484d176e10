"""jinja2's immutable sandbox with limits: a chat template is a program that comes with a file from anywhere.

The sandbox prevents access to anything outside of the template. It does not prevent that a template fills the memory or
never ends (`'x' * 10**9`, doubled strings, nested loops), and either would end the whole chat. So everything that a rendering
makes is counted against one bound: what it writes, and each value that an operator, a call, a filter, a slice or a list in
the source makes, whether it is kept or not. What can make a value larger is checked before it runs. Loop iterations and calls
are counted too, and the time is limited: so nothing between two of them may take long, and what would is checked or left out.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, ValuesView
from contextlib import contextmanager
from sys import getsizeof
from time import thread_time
from types import BuiltinFunctionType, FunctionType, GeneratorType, MethodType
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

MOST_SOURCE = 100_000
"""Characters of a template: four times the longest real ones. To compile it, jinja2 needs 30 us and 2 kB for each."""
MOST_MADE = 128_000_000
"""Bytes that one rendering may make. The longest contexts hold 4 MB of text, and templates make three times that."""
MOST_STEPS = 1_000_000
MOST_BITS = 4096
SECONDS = 5.0
"""Of this thread, so that a busy machine ends no rendering."""
MESSAGES = 200
"""So many times longer a conversation is, so many times the steps and the seconds: Gemma 4's template looks back from each
message, and takes 3 s for 800."""

_PICKING = ("map", "select", "reject", "selectattr", "rejectattr")
"""Filters that select from a list, or call other filters with its members: they make nothing larger themselves."""
_LINEAR = {
    *("lower", "upper", "capitalize", "casefold", "removeprefix", "removesuffix", "startswith", "endswith", "find", "index"),
    *("count", "length", "partition", "default", "d", "first", "last", "string", "safe", "e", "escape", "forceescape"),
    *("isdigit", "isspace", "isalpha", "get", "keys", "values", "items"),
}  # fmt: skip
"""Filters and methods that make about as much as they are given, and take as long. To search from the end, or to strip
characters, can take as long as the product of the sizes."""
_BY_CHARACTER = {
    *("list", "batch", "slice", "sort", "unique", "groupby", "sum", "min", "max", "random", "title", "wordcount"),
    *("indent", "striptags", "split", "rsplit", "splitlines", "spectui_looped"),
}
"""Those that may make a value of each character of a string."""
_LEFT_OUT = ("wordwrap", "urlize", "pprint")
"""Filters that take as long as the square of what they are given. llama.cpp's own Jinja has none of them."""
_NO_BYTES = ("encode", "to_bytes")
"""Methods that make bytes. A prompt is a text, and some of Python's encodings take very long."""
_OF_JINJA = ("_loop_vars", "_block_vars")
"""Arguments by which jinja2 tells a call what is around it."""
_CONTAINERS = (dict, list, tuple, set, frozenset, KeysView, ValuesView, ItemsView)
_WITH_TEXTS = (*_CONTAINERS, Namespace)
_WIDTH = re.compile(r"\d+")
_STAR = re.compile(r"%[^a-zA-Z%]*\*")
_PER_VALUE = 84
"""Bytes of a string of one character, with its place in a list."""


class LimitExceeded(SecurityError):
    """The template needs more memory or time than a prompt can need."""


class BoundedEnvironment(ImmutableSandboxedEnvironment):
    """For one template at a time: the limits are those of one rendering."""

    intercepted_binops = frozenset(("+", "-", "*", "**", "%"))

    def __init__(self, extensions: Iterable[Any] = ()) -> None:
        super().__init__(
            loader=jinja2.BaseLoader(),
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[loopcontrols, *extensions],
            finalize=_finalize,
            optimized=False,  # what the optimizer computes when it compiles would be in the source, which has to be compiled
        )
        self.globals.pop("lipsum")
        for name in _LEFT_OUT:
            self.filters.pop(name)
        self.filters["spectui_concat"] = lambda parts: "".join(map(str, parts))
        self.filters["spectui_checked"] = self.filters["spectui_looped"] = lambda value: value
        self._together = False
        self._begin()

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """jinja2's hook: may a template read this attribute?"""
        return attr not in _NO_BYTES and super().is_safe_attribute(obj, attr, value)

    def compiled(self, source: str) -> jinja2.Template:
        """The template, for `rendered`. Raises what jinja2 raises, or LimitExceeded."""
        if len(source) > MOST_SOURCE:
            raise LimitExceeded(f"it has {len(source)} characters")
        filters: Any = self.filters  # jinja2 does not declare their types
        tests: Any = self.tests
        filters.update({name: self._bounded(each, name, name in _PICKING) for name, each in filters.items()})
        tests.update({name: self._bounded(each, name, True) for name, each in tests.items()})
        return self.from_string(source)

    def rendered(self, template: jinja2.Template, /, **names: Any) -> str:
        """The text that the template writes. Raises what the template raises, or LimitExceeded."""
        if not self._together:
            self._begin(max(1.0, len(names.get("messages", ())) / MESSAGES))
        return template.render(names)

    @contextmanager
    def together(self) -> Iterator[None]:
        """All that is rendered within the block has the limits of one rendering."""
        self._begin()
        self._together = True
        try:
            yield
        finally:
            self._together = False

    def _begin(self, times: float = 1.0) -> None:
        self._steps = 0
        self._made = 0
        self._most_steps, self._deadline = MOST_STEPS * times, thread_time() + SECONDS * times

    def step(self, text: int = 0) -> str:
        """Count an iteration of a loop, which writes `text` characters of the template's own text."""
        self._steps += 1
        self.count(text)
        if self._steps > self._most_steps or thread_time() > self._deadline:
            raise LimitExceeded("it does not come to an end")
        return ""

    def count(self, size: int) -> None:
        """Count bytes that were made."""
        self._made += size
        if self._made > MOST_MADE:
            raise LimitExceeded("it makes too much")

    def made(self, value: Any, members: bool = False) -> Any:
        """Count a value that was made; with its `members`, if they were made too."""
        if isinstance(value, int) and value.bit_length() > MOST_BITS:  # int(base=16) makes one of any length
            raise LimitExceeded("a number is too large")
        size = getsizeof(value)
        if members and isinstance(value, list | tuple | set | frozenset):
            size += sum(map(getsizeof, value))
        self.count(size)
        return value

    def listed(self, value: Any) -> Any:
        """Count a list of the source. With all that is within: in doubled lists that would be without end."""
        self._may_make(size_of(value))
        return self.made(value)

    def _may_make(self, size: int) -> None:
        if self._made + size > MOST_MADE:
            raise LimitExceeded("a value would be too large")

    def _counted(self, value: Any, name: str = "") -> Any:
        """Count what a generator makes while something reads it. `join` needs to know before it joins."""
        if not isinstance(value, GeneratorType):
            return value

        def counted() -> Iterator[Any]:
            for each in value:
                self.step()
                yield self.made(each)

        return list(counted()) if name == "join" else counted()

    def call(__self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        """jinja2's hook for a call."""
        receiver, name = getattr(__obj, "__self__", None), getattr(__obj, "__name__", "")
        if receiver is __self:  # one of the checks
            return __obj(*args)
        __self.step()
        args = tuple(__self._counted(each, name) for each in args)
        kwargs = {key: __self._counted(each, name) for key, each in kwargs.items()}
        if name == "strftime_now":
            __self._may_make(_widths(*args))
        given = (*args, *(each for key, each in kwargs.items() if key not in _OF_JINJA))
        __self._may_make(size_of(given))
        if isinstance(__obj, BuiltinFunctionType | FunctionType | MethodType):  # macros and classes are none
            __self._may_make(most_bytes(name, (receiver, *given)))
        return __self.made(super().call(__context, __obj, *args, **kwargs), members=True)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """jinja2's hook for `format` and `format_map`."""
        wrapper = super().wrap_str_format(value)
        if wrapper is not None:
            self._may_make(_widths(value.__self__))
        return wrapper

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """jinja2's hook for the operators that can make a value larger."""
        numbers = isinstance(left, int) and isinstance(right, int)
        if numbers and operator in ("*", "**"):
            bits = right if operator == "**" else right.bit_length()
            if max(left.bit_length(), 1) * abs(bits) > MOST_BITS and left.bit_length() + abs(bits) > MOST_BITS // 8:
                raise LimitExceeded("a number is too large")
        elif operator in ("*", "%") and not numbers:
            self._may_make(_product((left, right)) + (_widths(left) if operator == "%" else 0))
        elif not numbers:
            self._may_make(size_of((left, right)))
        return self.made(super().call_binop(context, operator, left, right))

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        template = super()._parse(source, name, filename)
        _Bounds().visit(template)
        template.set_environment(self)
        return template

    def _bounded(self, function: Callable[..., Any], name: str, picks: bool) -> Callable[..., Any]:
        """A filter or a test that checks the size of its arguments. `wraps` keeps jinja2's marker of a first argument."""

        @functools.wraps(function)
        def bounded(*args: Any, **kwargs: Any) -> Any:
            self.step()
            args = tuple(self._counted(each, name) for each in args)
            values = (*args, *kwargs.values())
            if name == "format":
                self._may_make(_widths(*values))
            self._may_make(size_of(values) if picks else most_bytes(name, values))
            result = function(*args, **kwargs)
            if isinstance(result, GeneratorType) or any(result is each for each in args):
                return result  # nothing is made, or not yet
            return self.made(result, members=True)

        return bounded


class _Bounds(NodeTransformer):
    """Insert checks where jinja2 has no hook: loops, `~`, comparisons of nested lists, slices, and lists in the source."""

    def visit_For(self, node: nodes.For) -> nodes.For:
        self.generic_visit(node)
        node.iter = _filter("spectui_looped", node.iter)
        text = sum(len(data.data) for part in node.body for data in _texts(part))
        step = nodes.EnvironmentAttribute("step", lineno=node.lineno)
        call = nodes.Call(step, [nodes.Const(text)], [], None, None, lineno=node.lineno)
        node.body.insert(0, nodes.ExprStmt(call, lineno=node.lineno))
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Filter:
        self.generic_visit(node)
        return _filter("spectui_concat", nodes.List(node.nodes, lineno=node.lineno))

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Expr:
        self.generic_visit(node)
        return _counted("made", node) if isinstance(node.arg, nodes.Slice) else node

    def visit_List(self, node: nodes.List) -> nodes.Expr:
        self.generic_visit(node)
        return _counted("listed", node)

    def visit_Dict(self, node: nodes.Dict) -> nodes.Expr:
        self.generic_visit(node)
        return _counted("listed", node)

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Expr:
        self.generic_visit(node)
        return _counted("listed", node) if node.ctx == "load" else node

    def visit_Compare(self, node: nodes.Compare) -> nodes.Compare:
        self.generic_visit(node)
        node.expr = _filter("spectui_checked", node.expr)
        return node

    def visit_Operand(self, node: nodes.Operand) -> nodes.Operand:
        self.generic_visit(node)
        node.expr = _filter("spectui_checked", node.expr)
        return node


def size_of(value: Any) -> int:
    """Bytes of the texts in a value and its members, plus 64 for each. Raises LimitExceeded if it is above MOST_MADE."""
    total, rest = 0, [value]
    while rest:
        each = rest.pop()
        total += 64
        if isinstance(each, Namespace):
            each = each._Namespace__attrs  # which printing it prints
        if isinstance(each, str):
            total += _bytes(each)
        elif isinstance(each, dict):
            rest += each.keys()
            rest += each.values()
        elif isinstance(each, _CONTAINERS):
            rest += each
        if total + 64 * len(rest) > MOST_MADE:
            raise LimitExceeded("a value is too large")
    return total


def most_bytes(name: str, values: tuple[Any, ...]) -> int:
    """The most that a filter, or a method and its receiver, can make of these arguments."""
    data = [value for value in values if isinstance(value, (str, range, *_CONTAINERS))]
    texts = [value for value in data if isinstance(value, str)]
    if name in _LINEAR:
        return 2 * size_of(values)
    if name == "replace" and len(texts) > 2:
        text, old, new = texts[:3]
        count = text.count(old) if old else len(text) + 1
        return _bytes(text) * (1 if new.isascii() else 4) + count * _bytes(new)
    if name in ("split", "rsplit") and len(texts) > 1:
        size = _bytes(texts[0]) if name == "split" else _product(texts)
        return size + _PER_VALUE * (texts[0].count(texts[1]) if texts[1] else 0)
    if name == "round" and any(isinstance(value, int) and value > MOST_BITS for value in values[1:]):
        raise LimitExceeded("a number is too large")
    if name == "join" and data:
        parts = max(len(each) for each in data)
        separator = max((_bytes(text) for text in texts), default=0)
        return size_of(values) + parts * (separator if len(texts) < len(data) else separator + _PER_VALUE)
    by_character = name in _BY_CHARACTER and bool(data) and isinstance(data[0], str)
    return _product(values) + (_PER_VALUE * len(data[0]) if by_character else 0)


def _bytes(text: str) -> int:
    return len(text) * (1 if text.isascii() else 4)


def _product(values: Iterable[Any]) -> int:
    """The product of the sizes of these arguments: `center`, `indent` and others make at most as much."""
    product = 1
    for value in values:
        if isinstance(value, int):
            product *= max(1, abs(value))
        elif isinstance(value, str):
            product *= max(1, _bytes(value))
        elif isinstance(value, _WITH_TEXTS):
            product *= size_of(value)
    return product


def _widths(*values: Any) -> int:
    """The most that the widths in these formats can add. Raises LimitExceeded if one is an argument."""
    texts = [value for value in values if isinstance(value, str)]
    if any(_STAR.search(text) for text in texts):
        raise LimitExceeded("a format is too wide")
    return sum(min(int(width[-12:]), 10**12) for text in texts for width in _WIDTH.findall(text))


@jinja2.pass_environment
def _finalize(environment: BoundedEnvironment, value: Any) -> Any:
    # The check is before the conversion to text. With the environment as argument, jinja2 does not call this at compile time.
    environment.count(size_of(value))
    return value


def _filter(name: str, node: Any) -> nodes.Filter:
    return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)


def _counted(how: str, node: nodes.Expr) -> nodes.Expr:
    count = nodes.EnvironmentAttribute(how, lineno=node.lineno)
    return nodes.Call(count, [node], [], None, None, lineno=node.lineno)


def _texts(node: nodes.Node) -> Iterable[nodes.TemplateData]:
    return [node] if isinstance(node, nodes.TemplateData) else node.find_all(nodes.TemplateData)
