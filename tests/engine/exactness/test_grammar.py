"""Replies that obey a grammar, on SmolLM2 through llama.cpp: valid, and the same with drafts and without."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from spectui.engine.events import Event, Message, Notice, RoundDone, Terms
from spectui.engine.session import Session
from spectui.errors import SpectuiError
from spectui.knobs import Knobs
from spectui.llama.grammar import Grammar

Opened = tuple[Session, list[Event]]

WORD = {"type": "string", "maxLength": 12}


def record(required=None, **properties):
    return {"type": "object", "properties": properties, "required": [*properties] if required is None else required}


SCHEMAS = {
    "properties": (
        record(name=WORD, age={"type": "integer"}),
        lambda made: len(made["name"]) <= 12 and isinstance(made["age"], int),
    ),
    "optional": (record(["a"], a={"type": "boolean"}, b={"type": "null"}), lambda made: {"a"} <= made.keys() <= {"a", "b"}),
    "enum": (record(size={"enum": ["small", "large", 7]}), lambda made: made["size"] in ("small", "large", 7)),
    "range": (record(stars={"type": "integer", "minimum": -1, "maximum": 5}), lambda made: -1 <= made["stars"] <= 5),
    "types": (record(a={"type": ["string", "null"], "enum": ["b", None]}), lambda made: made["a"] in ("b", None)),
    "quotes": (record(**{'a "b" \\ é\n': {"const": '"\\n" ö'}}), lambda made: made == {'a "b" \\ é\n': '"\\n" ö'}),
    "const": (record(kind={"const": "note"}, of=WORD), lambda made: made["kind"] == "note"),
    "array": (
        {"type": "array", "items": WORD, "minItems": 2, "maxItems": 4},
        lambda made: 2 <= len(made) <= 4 and all(isinstance(each, str) for each in made),
    ),
    "tuple": ({"prefixItems": [WORD, {"type": "integer"}]}, lambda made: isinstance(made[0], str) and isinstance(made[1], int)),
    "nested": (record(at=record(x={"enum": [0, 1]}, y=record(z=WORD))), lambda made: isinstance(made["at"]["y"]["z"], str)),
    "one of": (
        {"oneOf": [record(cat={"type": "boolean"}), record(dog=WORD)]},
        lambda made: isinstance(made.get("cat"), bool) or isinstance(made["dog"], str),
    ),
    "pattern": (
        record(id={"type": "string", "pattern": r"^[A-Z]{2}-\d{3}$"}),
        lambda made: re.fullmatch("[A-Z]{2}-\\d{3}", made["id"]),
    ),
    "date": (record(on={"type": "string", "format": "date"}), lambda made: re.fullmatch(r"\d{4}-\d\d-\d\d", made["on"])),
    "reference": (
        record(home={"$ref": "#/$defs/place"}) | {"$defs": {"place": record(city=WORD)}},
        lambda made: isinstance(made["home"]["city"], str),
    ),
    "one in the other": (
        record(
            of={"type": "array", "items": {"anyOf": [{"type": "number"}, {"$ref": "#/$defs/part"}]}, "maxItems": 2},
            at={"oneOf": [{"type": "string", "format": "time"}, {"type": "string", "format": "date-time"}]},
        )
        | {"additionalProperties": False, "$defs": {"part": record([], on={"type": "boolean"})}},
        lambda made: made.keys() == {"of", "at"} and all(isinstance(each, float | int | dict) for each in made["of"]),
    ),
}


@pytest.mark.parametrize("kind", [WORD, {"type": "string"}, {"type": "string", "pattern": "^a.*$"}, {}])
def test_a_string_has_nothing_that_json_forbids(plain: Opened, kind: dict[str, object]):
    assert plain[0].pair is not None
    model = plain[0].pair.target
    obeyed = Grammar(model, plain[0].pair.marks, (), json.dumps(record(a=kind)))
    assert all(map(obeyed.accept, model.tokenize('{"a": "a', special=False))) or not kind
    for character in ("\n", "\t", "\0", "\x1b"):
        assert not obeyed.accept(model.tokenize(character, special=False)[0])


def asked(session: Session, terms: Terms, text: str = "Tell me of a person.", **knobs: object) -> str:
    session.knobs = Knobs(seed=7, predict=120, **knobs)
    return session.generate([Message("user", text)], terms).text


@pytest.mark.parametrize("temperature", [0.0, 0.9])
@pytest.mark.parametrize("kind", SCHEMAS)
def test_json_is_valid_and_the_same_with_drafts(pair: Opened, plain: Opened, kind: str, temperature: float):
    schema, holds = SCHEMAS[kind]
    terms = Terms(grammar=json.dumps(schema))
    expected = asked(plain[0], terms, temperature=temperature, drafter="off")
    assert holds(json.loads(expected))
    for drafting in ({}, {"policy": "fixed", "drafter": "model", "draft_max": 6, "p_min": 0.0}, {"drafter": "suffix"}):
        assert asked(pair[0], terms, temperature=temperature, **drafting) == expected


def test_where_the_grammar_leaves_one_way_its_text_is_a_draft(plain: Opened):
    """Keys and punctuation, with the space that was there before; nothing where it could end or there is a choice."""
    session, events = plain
    events.clear()
    asked(session, Terms(grammar=json.dumps(record(first=WORD, second_of_all=WORD))), temperature=0.0)
    done = [event.round for event in events if isinstance(event, RoundDone)]
    by = {token.source for round in done for token in round.tokens if token.origin == "accepted"}
    assert by == {"grammar"} and len(done) < 0.8 * sum(len(round.tokens) for round in done)
    for grammar, begun, way in (
        ('root ::= "{" " "? [a-z]', "", "{"),
        ('root ::= "{" space "b" space ":" space "1" space ::= " "?', "", "{b: 1"),
        ('root ::= "a, b" [a-z] "," " "? "cd"', "a, bx,", " cd"),
        ('root ::= "a,b" [a-z] "," " "? "cd"', "a,bx,", "cd"),
        ('root ::= " "? "a"', "", "a"),
        ('root ::= "ab" "c"?', "", "ab"),
        ('root ::= "a" [äö]', "", "a"),
        ('root ::= "a"', "a", ""),
    ):
        assert session.pair is not None
        model = session.pair.target
        obeyed = Grammar(model, session.pair.marks, (), grammar.replace(" space ::=", "\nspace ::="))
        assert all(map(obeyed.accept, model.tokenize(begun, special=False)))
        assert b"".join(map(model.piece, obeyed.only_way())).decode() == way


def test_a_probability_is_the_models_whatever_the_grammar_allows(plain: Opened):
    session, events = plain
    events.clear()
    asked(session, Terms(grammar='root ::= "zebra"'), temperature=0.0)
    tokens = [(token, event.round.likeliest.at(n)) for event in events if isinstance(event, RoundDone)
              for n, token in enumerate(event.round.tokens)]  # fmt: skip
    first, likeliest = tokens[0]
    assert 0 < first.p_target < likeliest[0][2] and first.id not in {id for id, _, _ in likeliest}


def test_a_grammar_waits_for_its_trigger(pair: Opened, plain: Opened):
    free = asked(plain[0], Terms(), "List ten animals.", temperature=0.0)
    word = re.findall(r"[a-z]{4,}", free)[3]
    terms = Terms(grammar=f'root ::= "{word}" " =" [0-9]{{3}}', trigger=word)
    texts = {asked(each[0], terms, "List ten animals.", temperature=0.0) for each in (pair, plain)}
    [text] = texts
    before = free[: free.index(word)]
    assert re.fullmatch(re.escape(before + word) + " =[0-9]{3}", text)


@pytest.mark.parametrize(("trigger", "answer"), [("", ""), ("go", "I go"), (r"\s*(go)", "I go")])
def test_a_grammar_waits_while_the_model_thinks(plain: Opened, trigger: str, answer: str):
    assert plain[0].pair is not None
    model = plain[0].pair.target

    def tokens(text: str) -> list[int]:
        return model.tokenize(text, special=False, within=True)

    obeyed = Grammar(model, plain[0].pair.marks, tokens("<think>\n"), f'root ::= "{trigger and "go"}ab"', trigger)
    for token in tokens(f"I go on.\n</think>\n{answer}" if trigger else "I go on.\n</think>"):
        assert obeyed.allowed(np.arange(model.n_vocab)).all() and not obeyed.only_way()
        obeyed.accept(token)
    ways = obeyed.allowed(np.arange(model.n_vocab)).nonzero()[0]
    assert {model.piece(token) for token in ways.tolist()} == {b"a", b"ab"}


@pytest.mark.parametrize(
    ("grammar", "trigger", "why"),
    [
        ('root ::= "a', "", "unexpected end of input"),
        ('begin ::= "a"', "", "root"),
        ('root ::= root "a" | "b"', "", "left recursion"),
        (" ", "", "empty"),
        ("root ::= other", "", "other"),
        ("root ::= " + "(" * 500 + '"a"' + ")" * 500, "", "200 deep"),
        ('root ::= "a"', "(", "regular expression"),
        ('{"type": "strin"}', "", "strin"),
        ('{"pattern": "a"}', "", "Pattern"),
        (r'{"type": "string", "pattern": "^\\D$"}', "", "its pattern has"),
        ('{"$ref": "https://example.com/x"}', "", "not allowed"),
        ("{", "", "Expecting"),
    ],
)
def test_a_grammar_that_cannot_be_read_is_refused_in_a_sentence(plain: Opened, capfd, grammar, trigger, why):
    plain[1].clear()
    with pytest.raises(SpectuiError, match=why) as caught:
        asked(plain[0], Terms(grammar=grammar, trigger=trigger))
    assert str(caught.value).count("\n") == 0 and str(caught.value).endswith(".")
    assert capfd.readouterr().err == ""
    assert asked(plain[0], Terms(grammar='root ::= "it goes on"')) == "it goes on"
    assert not [event for event in plain[1] if isinstance(event, Notice)]
