"""No template fills the memory or runs for ever, and real templates write what jinja2's own sandbox writes."""

from __future__ import annotations

import resource
from contextlib import suppress
from typing import Any

import jinja2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from spectui.llama.tokens import sandbox
from spectui.llama.tokens.sandbox import BoundedEnvironment, LimitExceeded

MESSAGES = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Hi <think>x</think> {{ 7*7 }}"},
    {"role": "assistant", "content": "Yes?"},
    {"role": "user", "content": "2+2"},
]
NAMES: dict[str, Any] = {
    "messages": MESSAGES,
    "bos_token": "<s>",
    "eos_token": "</s>",
    "add_generation_prompt": True,
    "tools": None,
}


def strftime_now(form: str) -> str:
    raise AssertionError(form)


def rendered(template: str, **names: Any) -> str:
    environment = BoundedEnvironment()
    return environment.rendered(environment.compiled(template), **NAMES, **names)


REAL = [
    # Llama 3, Mistral, Gemma, Qwen 3 in part: what they use of the language
    "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' + "
    "message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}"
    "{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}{{ '<|start_header_id|>assistant' }}",
    "{%- if messages[0]['role'] == 'system' %}{%- set system_message = messages[0]['content'] %}{%- set loop_messages = "
    "messages[1:] %}{%- endif %}{{ bos_token }}{%- for message in loop_messages %}{%- if message.role == 'user' and "
    "loop.last and system_message is defined %}{{ '[INST] ' + system_message + '\n\n' + message.content + '[/INST]' }}"
    "{%- elif message.role == 'assistant' %}{{ ' ' ~ message.content ~ eos_token }}{%- else %}{{ message.content }}"
    "{%- endif %}{%- endfor %}",
    "{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}{%- for message in "
    "messages[::-1] %}{%- set index = (messages|length - 1) - loop.index0 %}{%- if ns.multi_step_tool and message.role =="
    " 'user' and not(message.content.startswith('<tool_response>')) %}{%- set ns.multi_step_tool = false %}{%- set "
    "ns.last_query_index = index %}{%- endif %}{%- endfor %}{{ ns.last_query_index }}{% for m in messages %}"
    "{{ m.content.split('</think>')[-1].lstrip('\n') | replace('<', '[') | upper }}{% endfor %}",
    "{%- macro show(value, depth=2) %}{%- if value is mapping %}{ {%- for key, each in value|items|sort %}{{ ' ' * depth "
    "}}{{ key }}: {{ show(each) }}{%- if not loop.last %}, {%- endif %}{%- endfor %} }{%- elif value is string %}"
    "{{ value | tojson }}{%- else %}{{ value }}{%- endif %}{%- endmacro %}{{ show({'b': {'c': 1.5}, 'a': 'x\"y'}) }}"
    "{% for m in messages if m.role != 'system' %}{{ loop.cycle('a', 'b') }}{{ '%-10s|%3d' % (m.role, loop.index) }}"
    "{{ '{:>8}'.format(m.role) }}{% if loop.index == 2 %}{% break %}{% endif %}{% endfor %}",
    "{{ messages | map(attribute='role') | join(', ') }}{{ messages | selectattr('role', 'equalto', 'user') | list | "
    "length }}{{ (messages | rejectattr('role', 'in', ['user', 'system']) | first).content | indent(4) | title }}"
    "{{ 3 ** 4 % 7 * 2 + 1 }}{{ [1, 2] + [3] }}{{ messages[0].content[:2] * 3 }}",
]  # fmt: skip


@pytest.mark.parametrize("template", REAL)
def test_real_templates_write_what_they_write_without_limits(template: str) -> None:
    plain = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    assert rendered(template) == plain.from_string(template).render(**NAMES) != ""


BOMBS = [
    "{{ 'x' * 10**9 }}",
    "{{ 10**9 * 'x' }}",
    "{{ ['x'] * 10**9 }}",
    "{% set a = 'x' * 10**6 %}{{ [a] * 10**6 }}",
    "{{ 9 ** (9 ** 9) }}",
    "{% set ns = namespace(n=9) %}{% for i in range(60) %}{% set ns.n = ns.n * ns.n %}{% endfor %}",
    "{% set ns = namespace(s='x') %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
    "{% set ns = namespace(s='x') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
    "{% set ns = namespace(s='x') %}{% for i in range(60) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s }}",
    "{% set ns = namespace(s='x') %}{% for i in range(60) %}{% set ns.s = ns.s|replace('x', 'xx') %}{% endfor %}",
    "{% set ns = namespace(s='x') %}{% for i in range(60) %}{% set ns.s = ns.s.replace('x', 'xx') %}{% endfor %}",
    "{% set ns = namespace(s='x') %}{% for i in range(60) %}{% set ns.s %}{{ ns.s }}{{ ns.s }}{% endset %}{% endfor %}",
    "{% set ns = namespace(s='x') %}{% for i in range(60) %}{% set ns.s = '%s%s' % (ns.s, ns.s) %}{% endfor %}",
    "{% set ns = namespace(s='x') %}{% for i in range(60) %}{% set ns.s = [ns.s, ns.s]|join %}{% endfor %}",
    "{% set ns = namespace(s='x', t='x') %}{% for i in range(60) %}{% set ns.s = [ns.s, ns.s] %}"
    "{% set ns.t = [ns.t, ns.t] %}{% endfor %}{{ ns.s == ns.t }}",
    "{% set ns = namespace(s='x', t='x') %}{% for i in range(60) %}{% set ns.s = [ns.s, ns.s] %}"
    "{% set ns.t = [ns.t, ns.t] %}{% endfor %}{{ ns.s is eq ns.t }}",
    "{{ 'x'|center(10**9) }}",
    "{{ 'x'.center(10**9) }}",
    "{{ 'x'.zfill(10**9) }}",
    "{{ ('\t' * 10**5).expandtabs(10**5) }}",
    "{{ '%1000000000d' % 1 }}",
    "{{ '%*d' % (10**9, 1) }}",
    "{{ '%1000000000d'|format(1) }}",
    "{{ '{:1000000000}'.format(1) }}",
    "{{ '{:{}}'.format(1, 10**9) }}",
    "{{ strftime_now('%1000000000d') }}",
    "{{ 'x'|indent(10**9, true) }}",
    "{{ [1]|batch(10**9, 'x')|list }}",
    "{{ messages|tojson(indent=10**9) }}",
    "{{ ('x' * 10**6)|wordwrap(1, wrapstring='y' * 10**6) }}",
    "{{ 'x'.join(['y' * 10**6] * 10**6) }}",
    "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "{% for a in range(99999) %}{% for b in range(99999) %}" + "x" * 500 + "{% endfor %}{% endfor %}",
    "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(60) }}",
    "{% for a in [1] recursive %}{{ loop([1, 1]) }}{{ loop([1, 1]) }}{% endfor %}",
    "{{ range(99999)|map('center', 10**6)|list|length }}",
    "x" * 2_000_000,
    "{{a}}" * 190_000,
    "{% for a in [1] %}x{% endfor %}" * 30_000,
    "{{ " + "(" * 5000 + ")" * 5000 + " }}",
    "{% if x %}" * 3000,
    *(
        "".join(f"{{% set a{n} = {value} %}}" for n in range(80))
        for value in (
            "'x'.ljust(60000000)", "'x' * 60000000", "'x'|center(60000000)", "'y' * 5 ~ 'x' * 50000000", "'é'.ljust(15000000)",
            "('x' * 30000000)|list", "('é' * 900000)|list", "('x' * 30000000).split('x')", "('x-' * 900000)|title",
            "'%1000000d' % 1 * 60", "range(99999)|list", "[0] * 5000000", "('x ' * 900000).split()", "('\\n' * 9000000)|indent",
            "{'a': 'x' * 30000000}|string", "('x' * 60000000)[1:]", "'x'.encode() * 60000000", "'😀' * 15000000",
        )
    ),
    "{% set ns = namespace(s='x' * 9000000, l=[]) %}{% for i in range(999) %}{% set ns.l = [ns.l, ns.s[1:]] %}{% endfor %}",
    "{% set ns = namespace(l=[]) %}{% for i in range(99999) %}{% set ns.l = [ns.l" + ", 0" * 9999 + "] %}{% endfor %}",
    "{% set ns = namespace(l=[]) %}{% for i in range(99999) %}{% set ns.l = [ns.l, range(99999)|list] %}{% endfor %}",
    "{% set ns = namespace(l=[]) %}{% for i in range(99999) %}{% set ns.l = [ns.l, {'a': 'x' * 9999}|string] %}{% endfor %}",
    "{% set ns = namespace(l=[]) %}{% for i in range(9999) %}{% set s %}" + "x" * 50000 + "{% endset %}"
    "{% set ns.l = [ns.l, s] %}{% endfor %}",
    "{% macro m() %}" + "x" * 50000 + "{% endmacro %}{% set ns = namespace(l=[]) %}"
    "{% for i in range(99999) %}{% set ns.l = [ns.l, m()] %}{% endfor %}",
    "{{ ('%(a)s' * 9999) % {'a': 'x' * 99999} }}",
    "{{ '%(a)99999d' * 9000 % {'a': 1} }}",
    "{{ '{0:99999}' * 9000 }}{{ ('{0:99999}' * 9000).format(1) }}",
    "{{ range(99999)|map('string')|join('y' * 99999) }}",
    "{{ range(99999)|join('y' * 99999) }}",
    "{{ ('x' * 50000000)|map(attribute='y')|list }}",
    "{% for c in ('é' * 9000000) %}{% if loop.length %}{% break %}{% endif %}{% endfor %}",
    "{% set ns = namespace(s='x') %}{% for i in range(60) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}"
    "{{ {'a': ns.s}.values() }}",
    "{% set ns = namespace(s='x') %}{% for i in range(60) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns }}{{ ns|string }}",
    "{{ 'ab'.translate({97: 'x' * 60000000, 98: 'y' * 60000000}) }}",
    "{{ (1).to_bytes(10**9, 'big') }}",
    "{{ 'x'|center(90000000) }}" * 100,
    "{{ ('f' * 4000000)|int(base=16) // ('e' * 2000000)|int(base=16) > 1 }}",
    "{{ 1|round(20000000, 'ceil') }}",
    "{{ ('x' * 500000)|wordwrap(1) }}",
    "{{ ('x(' * 300000 ~ ')' * 300000)|urlize }}",
    "{{ (range(99999)|list,) * 9|pprint }}",
    "{% set s %}{% for i in range(200, 30000) %}{{ '%c' % i }}{% endfor %}{% endset %}{{ (s * 3).encode('punycode') }}",
    *(
        f"{{{{ ('a' * 3000000){how} }}}}"
        for how in (
            ".rfind('ab' ~ 'a' * 1000000)", ".rindex('ab' ~ 'a' * 1000000)", ".rsplit('ab' ~ 'a' * 1000000)",
            ".rpartition('ab' ~ 'a' * 1000000)", ".lstrip('b' * 1000000 ~ 'a')", "|trim('b' * 1000000 ~ 'a')",
        )
    ),
    *(
        f"{{% set ns = namespace(t=0) %}}{{% macro m() %}}{{% set ns.t = varargs %}}{{% endmacro %}}{{% for i in range(60) %}}"
        f"{doubled}{{% endfor %}}{{{{ {{}}[ns.t] }}}}"
        for doubled in (
            "{% set ns.t = (ns.t, ns.t) %}", "{{ m(ns.t, ns.t) }}", "{% set ns.t = cycler(ns.t, ns.t).items %}",
            "{% set ns.t = dict(a=ns.t, b=ns.t) %}", "{% set ns.t = {'a': ns.t, 'b': ns.t} %}",
        )
    ),
]  # fmt: skip


@pytest.mark.parametrize("template", BOMBS, ids=lambda template: template[:60])
def test_a_template_that_never_ends_or_fills_the_memory_is_stopped(
    template: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "SECONDS", 1.0)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises((LimitExceeded, RecursionError, jinja2.TemplateError, MemoryError, SyntaxError)):
        rendered(template, strftime_now=strftime_now)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 600 * 1024, "KiB"


@pytest.mark.parametrize(
    "template",
    [
        "{{ ''.__class__.__mro__ }}", "{{ messages.__class__.__base__.__subclasses__() }}", "{{ cycler.__init__.__globals__ }}",
        "{{ ('%s{0.__class__}'|attr('format'))(1) }}", "{{ messages.append(1) }}", "{{ messages|attr('append') }}",
        "{% set f = '{0.__class__.__init__.__globals__}'.format %}{{ f(cycler) }}", "{{ self.__init__.__globals__ }}",
        "{{ ['{0.__class__}']|map('format', 1)|list }}", "{% include '/etc/passwd' %}", "{% import 'os' as os %}",
        "{{ strftime_now.__globals__ }}", "{{ (strftime_now|attr('__globals__')) }}", "{{ joiner.__call__.__func__.__code__ }}",
        "{{ range.mro() }}", "{{ namespace.__init__ }}", "{{ '{0.__class__}'.format_map({'0': 1}) }}",
        "{{ [1]|map(attribute='__class__')|list }}", "{{ [1]|sort(attribute='__class__.__base__') }}", "{{ ''|xmlattr }}",
    ],
)  # fmt: skip
def test_a_template_reaches_nothing_outside_of_the_sandbox(template: str) -> None:
    """jinja2 3.1.5 closed an escape through `format`, and 3.1.6 one through `|attr`."""
    try:
        written = rendered(template, strftime_now=strftime_now)
    except (jinja2.TemplateError, TypeError, LookupError, AttributeError, ValueError):
        return
    assert (
        "<class" not in written and "built" not in written and "root:" not in written and "mappingproxy" not in written
    )


def test_there_is_no_lipsum() -> None:
    with pytest.raises(jinja2.UndefinedError):
        rendered("{{ lipsum(n=1000) }}")


def test_the_limits_are_those_of_one_rendering(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "MOST_STEPS", 100)
    environment = BoundedEnvironment()
    template = environment.compiled("{% for i in range(40) %}{{ i }}{% endfor %}")
    for _ in range(10):
        assert environment.rendered(template).startswith("0123")
    with pytest.raises(LimitExceeded):
        environment.rendered(environment.compiled("{% for i in range(200) %}{{ i }}{% endfor %}"))


def test_a_long_conversation_has_more_steps_and_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gemma 4's template looks back from each message."""
    monkeypatch.setattr(sandbox, "MOST_STEPS", 50_000)
    source = "{% for m in messages %}{% for n in range(loop.index) %}{% endfor %}{% endfor %}done"
    environment = BoundedEnvironment()
    template = environment.compiled(source)
    assert environment.rendered(template, messages=MESSAGES * 100) == "done", "81,000 steps for 400 messages"
    with pytest.raises(LimitExceeded):
        environment.rendered(environment.compiled("{% for i in range(51000) %}{% endfor %}"), messages=MESSAGES)


def test_all_that_a_rendering_makes_is_within_one_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also what is not kept, and what is made in small pieces."""
    monkeypatch.setattr(sandbox, "MOST_MADE", 1_000_000)
    for value in ("'x' * 999", "'x'.center(999)", "'x'|center(999)", "m ~ m", "m + m", "m[1:]", "m|upper", "m.upper()",
                  "m.split('x')", "(m,) * 99", "[m]|list", "'%s' % m", "m|tojson", "[1, 2, 3, 4, 5, 6, 7, 8, 9, 0]|string",
                  "q()", "[" + "0, " * 99 + "]", "range(99)|list", "range(99)|map('string')|join"):  # fmt: skip
        source = "{% macro q() %}{{ 'x' * 999 }}{% endmacro %}{% set m = 'x' * 999 %}{% for i in range(99999) %}"
        with pytest.raises(LimitExceeded, match=r"too (much|large)"):
            rendered(f"{source}{{% set a = {value} %}}{{% endfor %}}")


def test_a_long_conversation_is_within_the_limits() -> None:
    talk = [{"role": ("user", "assistant")[n % 2], "content": "word " * 20_000} for n in range(20)]
    talk[0]["content"] = "x" * 1_000_000
    environment = BoundedEnvironment()
    for template in REAL:
        environment.rendered(environment.compiled(template), **NAMES | {"messages": talk})


pieces = st.sampled_from([
    "{% for i in range(999) %}", "{% endfor %}", "{% set ns.s = ns.s ~ ns.s %}", "{% set ns.s = ns.s * 99 %}", "{{ ns.s }}",
    "{% set ns.s = [ns.s, ns.s] %}", "{% set ns.s = ns.s|string|center(9999) %}", "{{ ns.s|tojson }}", "{% if ns.s %}",
    "{% endif %}", "{% set ns.s = messages|string %}", "{% set ns.s = ns.s|replace('x', 'xxxxx') %}", "{{ ns.s[::-1] }}",
    "{% set ns.s = ns.s|list %}", "{% set ns.s = (ns.s|join) %}", "{{ ns.s == ns.s|list }}", "{% break %}", "{{", "}}", "x",
])  # fmt: skip


@given(st.lists(pieces, max_size=12))
@settings(deadline=None, max_examples=150)
def test_any_combination_of_parts_ends(parts: list[str]) -> None:
    with suppress(jinja2.TemplateError, RecursionError, TypeError, ValueError, SyntaxError):
        assert len(rendered("{% set ns = namespace(s='x') %}" + "".join(parts))) <= sandbox.MOST_MADE
