"""What a replay does with a recorded prompt: continue the last reply, compare it, or send the prompt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from spectui.chat.messages import ChatMessage
from spectui.chat.session import ChatSession
from spectui.engine.events import Message
from spectui.thinking import OPEN


class Send(NamedTuple):
    """A prompt was sent, after the conversation's first `same` messages and then `missing` ones, which it does not have.

    `dropped`: how many of them, from the first on, the prompt left out.
    """

    same: int
    missing: tuple[Message, ...]
    prompt: str
    system: str
    dropped: int = 0


def recorded_step(
    session: ChatSession, asked: Sequence[Message], *, plainly: bool
) -> Send | Literal["continue", "compare"]:
    """The recorded action that sent this request to the engine: the last reply was continued, or compared with its plain
    decoding, or a prompt was sent. `plainly`: without drafts."""
    system = next((each.content for each in asked if each.role == "system"), "")
    messages = [each for each in asked if each.role != "system"]
    if messages and messages[-1].role == "assistant" and session.can_continue:
        return "continue"
    while messages and messages[-1].role != "user":
        messages.pop()
    # An earlier spectui did not record the mark of thinking that the prompt had opened.
    here = [(each.role, each.content) for each in session.messages if each is not session.conversation.unanswered]
    there = [(each.role, each.content.removeprefix(OPEN)) for each in messages]
    last = session.last_reply
    drafted = last is not None and last.figures.statistics.drafted > 0
    out = _left_out(session, here, there)
    if plainly and here[out:-1] == there and not session.no_comparison and drafted:
        return "compare"
    pairs = enumerate(zip(here[out:], there, strict=False))
    same = next((n for n, (one, other) in pairs if one != other), min(len(here) - out, len(messages)))
    same = min(same, max(0, len(messages) - 1))
    return Send(out + same, tuple(messages[same:-1]), messages[-1].content if messages else "", system, out)


def _left_out(session: ChatSession, here: Sequence[tuple[str, str]], there: Sequence[tuple[str, str]]) -> int:
    """How many messages, from the first on, the recorded prompt left out; 0 where it began another conversation."""
    before = there[:-1]
    unanswered = session.conversation.unanswered
    if there and not before and unanswered is not None and there[-1][1] == unanswered.content:
        return len(here)  # there was room for this prompt alone
    return next((n for n in range(len(here)) if here[n : n + len(before)] == before), 0)


def take_over(session: ChatSession, step: Send) -> None:
    """Go back to the point where the prompt was sent, and queue the prompt."""
    talk = session.conversation
    if step.same < len(session.messages):
        talk.go_back(step.same)
    if step.system != talk.system:
        session.set_system(step.system)
    setup = session.setup
    talk.add((ChatMessage(each.role, each.content, setup=setup) for each in step.missing), talk.head)
    if step.dropped != session.oldest.dropped:
        session.oldest.leave_out(step.dropped)
    session.queue(step.prompt)
