"""Random JSON schemas: the reply is JSON, and the same with drafts and without. More than 20: SCHEMAS=200 pytest FILE."""

import json
import os
import random

import pytest

from spectui.engine.events import Event, Message, Terms
from spectui.engine.session import Session
from spectui.knobs import Knobs

HOW_MANY = int(os.environ.get("SCHEMAS", "20"))
LEAVES = ("string", "integer", "number", "boolean", "enum", "const", "range", "pattern", "format")

Schema = dict[str, object]


def schema(choose: random.Random, depth: int = 2) -> Schema:
    """A schema of a common kind, with others inside to this depth."""
    kind = choose.choice([*LEAVES, *["object", "array", "anyOf", "oneOf", "$ref"] * (depth > 0)])
    match kind:
        case "string":
            return {"type": "string", "maxLength": choose.randint(1, 12)}
        case "enum":
            return {"enum": choose.sample(["red", "a b", 'q"q', 1, None, True], 3)}
        case "const":
            return {"const": choose.choice(["x", 5, None])}
        case "range":
            least = choose.randint(-50, 50)
            return {"type": "integer", "minimum": least, "maximum": least + choose.randint(0, 300)}
        case "pattern":
            return {"type": "string", "pattern": choose.choice([r"^[a-z]{2,4}$", r"^\d{3}-\d{2}$"])}
        case "format":
            return {"type": "string", "format": choose.choice(["date", "time", "date-time"])}
        case "object":
            names = [f"key {number}" for number in range(choose.randint(1, 4))]
            required = choose.sample(names, choose.randint(0, len(names)))
            return record({name: schema(choose, depth - 1) for name in names}, required) | {"additionalProperties": False}
        case "array":
            least, most = choose.randint(0, 2), choose.randint(2, 4)
            return {"type": "array", "items": schema(choose, depth - 1), "minItems": least, "maxItems": most}
        case "anyOf" | "oneOf":
            return {kind: [schema(choose, depth - 1), schema(choose, depth - 1)]}
        case "$ref":
            return record({"of": {"$ref": "#/$defs/part"}}, ["of"])
    return {"type": kind}


def record(properties: dict[str, Schema], required: list[str]) -> Schema:
    return {"type": "object", "properties": properties, "required": required}


@pytest.mark.parametrize("seed", range(HOW_MANY))
def test_a_random_schema_gives_json_and_the_same_text_with_drafts(pair: tuple[Session, list[Event]], seed: int):
    session, _ = pair
    choose = random.Random(seed)
    terms = Terms(grammar=json.dumps(schema(choose) | {"$defs": {"part": schema(choose, 0)}}))
    texts = []
    for drafting in ({"drafter": "off"}, {"policy": "fixed", "drafter": "model", "draft_max": 4, "p_min": 0.0}):
        session.knobs = Knobs(seed=seed, temperature=0.9, predict=400, **drafting)
        texts.append(session.generate([Message("user", "Write JSON.")], terms).text)
    json.loads(texts[0])
    assert texts[0] == texts[1]
