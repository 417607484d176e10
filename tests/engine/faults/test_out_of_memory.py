"""Too little memory in the middle of a reply: a real limit of the process, which llama.cpp's buffer for the results meets."""

import json
import os
import re
import subprocess
import sys
from dataclasses import asdict, replace

import pytest

from tests.helpers.smollm2 import alone

PROGRAM = """
import faulthandler, json, resource, sys
faulthandler.dump_traceback_later(100, exit=True)
from dataclasses import replace
from spectui.engine.events import Message, RoundDone
from spectui.engine.session import Session
from spectui.errors import SpectuiError
from spectui.knobs import Knobs, Setup

QUESTION = [Message("user", "write snake game in python")]
RESULTS = 6 << 20  # bytes: less than the results of the long passes take, and more than Python needs

def limit(more):
    size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + more if more else resource.RLIM_INFINITY, resource.RLIM_INFINITY))

def happened(event):
    if isinstance(event, RoundDone) and wanted:
        rounds.append(event.round)
        if len(rounds) == 3:
            session.knobs = replace(drafts, draft_max=48)
            limit(RESULTS)

rounds, wanted = [], False
session = Session(happened)
session.load(Setup(**json.loads(sys.argv[1])))
drafts = Knobs(temperature=0, predict=60, drafter="model", policy="fixed", draft_max=4, p_min=0.0)
session.knobs = replace(drafts, drafter="off")
before = session.generate(QUESTION).text
session.knobs, wanted, said = drafts, True, ""
try:
    session.generate(QUESTION)
except SpectuiError as error:
    said = str(error)
wanted = False
limit(0)
kept = "".join(token.text for each in rounds for token in each.tokens)
print(json.dumps({"said": said, "kept": kept, "before": before, "after": session.generate(QUESTION).text}))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the size of the process is read from /proc")
def test_what_was_written_is_kept_and_the_chat_goes_on():
    setup = replace(alone(), draft=alone().model, ctx_size=512, requantise_draft="off")
    # glibc takes large buffers from what it has freed otherwise, and the limit would not be met.
    env = {**os.environ, "MALLOC_MMAP_THRESHOLD_": str(2**18)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(asdict(setup))],
        env=env, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert re.fullmatch(
        r"llama.cpp could not evaluate \d+ tokens \(code -2, .*memory.*\): there is too little memory, so .*\.", found["said"]
    )
    assert found["kept"] and found["before"].startswith(found["kept"]) and found["kept"] != found["before"]
    assert found["after"] == found["before"]
