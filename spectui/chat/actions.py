"""What the commands of the table do: functions of a session and the words after the command.

A command returns what a person asked for, or a `Remark` about what it did. What it has asked of the engine goes on when it
returns. Where it cannot be done it raises SpectuiError with a sentence, which may name other commands as {ids}.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from spectui.chat import sentences
from spectui.chat.figures.format import count, duration
from spectui.chat.figures.lines import payoff_lines, summary_line, token_lines
from spectui.chat.history.views import ListedMessage, exported, listed_messages
from spectui.chat.messages import OpenedConversation
from spectui.chat.session import ChatSession, refuse
from spectui.chat.text.code_blocks import last_code_blocks
from spectui.config import SETTINGS, convert, nearest, shown
from spectui.errors import ExistsError, UsageError
from spectui.knobs import Knobs, Setup, spec_of, title
from spectui.profiles import named_prompts
from spectui.profiles.setup_line import flags_of
from spectui.speculation.records import StopReason
from spectui.store import export
from spectui.store.records import Summary
from spectui.text import printable, unescaped
from spectui.text_file import read_schema

Listed = TypeVar("Listed")

_DIGITS = 20  # Python refuses to read a number of some thousands
_SHOWN = 100  # characters of a message in the list


class Remark(str):
    """A sentence about what a command did, which is no answer to a question."""


class GoingOn(Remark):
    """The remark that another conversation, or another branch, is shown from now on."""


def numbered(listed: Sequence[Listed], word: str, what: str, where: str) -> Listed:
    """One of a list that was shown, by its number from 1. Raises UsageError."""
    if not word:
        raise UsageError(f"Give the number of a {what}: /{where} shows the list.")
    number = int(word) if word.isdecimal() and len(word) < _DIGITS else 0
    if not 1 <= number <= len(listed):
        raise UsageError(f"There is no {what} {word[:_DIGITS]} in the list: /{where} shows it.")
    return listed[number - 1]


def pair(session: ChatSession) -> str:
    """The target's name, and the drafter's if there is one."""
    drafter = session.models.drafter
    return f"{session.name} drafted by {drafter}" if drafter else session.name


def wordless(does: Callable[[ChatSession], object], remark: str = "") -> Callable[[ChatSession, str], str]:
    """A command without words. `remark`: what is said when it was done."""

    def do(session: ChatSession, words: str) -> str:
        does(session)
        return Remark(remark)

    return do


# What is said


def continue_reply(session: ChatSession, words: str) -> str:
    """Go on with a reply that was stopped, or with the conversation that a crash ended."""
    if session.can_continue:
        session.continue_reply()
        return ""
    if (offer := session.take_offer()) is not None:
        return _resume(session, OpenedConversation.of(offer))
    refuse(session.busy_reason)
    raise UsageError("There is no reply that was stopped, and no conversation that was cut off.")


def drop(session: ChatSession, words: str) -> str:
    """Drop the oldest turns of a context where the last reply ended, or could not begin, and go on."""
    last = session.last_reply
    full = session.conversation.unanswered or (session.can_continue and last and last.reply.stop == StopReason.CONTEXT.value)
    refuse(session.busy_reason or ("" if full else "The context was not full at the last reply, so nothing is dropped."))
    session.oldest.wanted = True
    if session.conversation.unanswered:
        session.regenerate()
    else:
        session.continue_reply()
    return ""


def bring_back(session: ChatSession, words: str) -> str:
    """Make the dropped turns a part of the next prompt again."""
    refuse(session.no_change or ("" if session.oldest.dropped else "No turns are dropped."))
    session.oldest.leave_out(0)
    return Remark("All turns are a part of the next prompt again.")


def edit(session: ChatSession, words: str) -> str:
    """Send a text in place of the last prompt."""
    refuse(session.busy_reason or session.models.refusal(words))
    prompt = session.conversation.prompt_to_edit()
    if prompt is None:
        raise UsageError(sentences.NOTHING_TO_EDIT)
    if words.strip():
        session.conversation.begin_edit(prompt)
        session.send(words)
    return ""


def send(session: ChatSession, words: str) -> str:
    """Send a prompt."""
    refuse(session.busy_reason or session.models.refusal(words))
    if words.strip():
        session.send(words)
    return ""


def messages(session: ChatSession, words: str) -> str:
    """List the messages and the other branches."""
    if not session.messages:
        return Remark(sentences.NOTHING_SAID)
    lines = []
    for number, message in enumerate(listed_messages(session), 1):
        line = " ".join(printable(message.text).split())
        lines.append(f"{number} {message.label}: {line if len(line) <= _SHOWN else f'{line[: _SHOWN - 1]}…'}")
    return "\n".join(lines)


def back(session: ChatSession, words: str) -> str:
    """Go on from a message of the list."""
    talk = session.conversation
    match numbered(list(listed_messages(session)), words, "message", "messages"):
        case ListedMessage("edit", index):
            talk.go_back(index)
            return Remark("The next prompt takes its place.")
        case ListedMessage("back", length):
            talk.go_back(length)
            return Remark(f"Going on from message {words}: {{undo}} brings back what came after.")
        case ListedMessage("branch", message):
            talk.turn_to(message)
    return _last(session)


def undo(session: ChatSession, words: str) -> str:
    """Bring back what was said before the last regenerating, editing or going back."""
    refuse(session.no_change or session.conversation.no_undo)
    session.conversation.undo()
    return _last(session)


def _last(session: ChatSession) -> str:
    return f"Going on from this message:\n{session.messages[-1].content}" if session.messages else ""


def system(session: ChatSession, words: str) -> str:
    """Say or set the conversation's system prompt."""
    if words:
        session.set_system("" if words == '""' else words)
    return f"System prompt: {session.setup.system or 'none'}"


def use_named_prompt(session: ChatSession, words: str) -> str:
    """Take a named system prompt and the knobs of its head; without words, list the names."""
    if not words:
        lines = (f"{name}: {about}" for name, about in named_prompts.listed().items())
        return "\n".join(lines) or Remark(sentences.NO_NAMED_PROMPT)
    prompt, fixed = named_prompts.read(words), session.models.fixed
    session.user_knobs.take({key: value for key, value in prompt.knobs.items() if key not in fixed})
    if prompt.text:
        session.set_system(prompt.text)
    left = "".join(f" {title(key)} stays: {fixed[key].sentence}" for key in prompt.knobs if key in fixed)
    return Remark(f"As {words} from the next prompt on.{left}")


def code(session: ChatSession, words: str) -> str:
    """The last reply's last code block, or another."""
    blocks = last_code_blocks(session.messages)
    refuse("" if blocks else "There is no code block in the reply.")
    return numbered(blocks, words or str(len(blocks)), "code block", "code")


# Conversations on disk


def chats(session: ChatSession, words: str) -> str:
    """List the conversations that have these words."""
    session.stored.listed = session.stored.find(words)
    lines = []
    for number, summary in enumerate(session.stored.listed, 1):
        when = datetime.fromtimestamp(summary.updated).strftime("%Y-%m-%d %H:%M")
        here = ", this one" if session.stored.is_open(summary.id) else ""
        lines.append(f"{number} {summary.title or '(no title)'}: {when}, {summary.messages} messages, {summary.target}{here}")
        lines += [f"  {summary.excerpt}"] if summary.excerpt else []
    return "\n".join(lines) or Remark(sentences.nothing_found(words))


def open_chat(session: ChatSession, words: str) -> str:
    """Go on with a conversation of the list."""
    summary = _chat(session, words)
    if session.stored.is_open(summary.id):
        raise UsageError("This is the conversation that is open.")
    return _resume(session, session.stored.read(summary.id))


def rename(session: ChatSession, words: str) -> str:
    """Give a conversation of the list another title."""
    number, _, name = words.partition(" ")
    summary = _chat(session, number)
    name = session.stored.rename(summary.id, name)
    if not name:
        raise UsageError("/rename takes a number and a title.")
    return Remark(f"{summary.title} is now {name}.")


def delete(session: ChatSession, words: str) -> str:
    """Delete a conversation of the list, on disk too."""
    number, _, sure = words.partition(" ")
    summary = _chat(session, number)
    if sure.strip() != "yes":
        raise UsageError(
            f"“{summary.title}” and its {summary.messages} messages cannot be brought back: /delete {number} yes deletes them."
        )
    session.leave(summary.id)
    session.stored.delete(summary.id)
    return Remark(f"“{summary.title}” is deleted.")


def export_chat(session: ChatSession, words: str) -> str:
    """Write the conversation to a file in the working directory."""
    refuse("" if session.messages else sentences.NOTHING_SAID)
    try:
        return f"Written: {exported(session, words or export.file_name(session.journal.title))()}"
    except ExistsError as error:
        raise UsageError(f"{error} /export NAME takes another name.") from error


def _chat(session: ChatSession, word: str) -> Summary:
    refuse("" if session.stored.saved else sentences.NOT_SAVED)  # there was no list
    return numbered(session.stored.listed, word, "conversation", "chats")


def _resume(session: ChatSession, opened: OpenedConversation) -> str:
    session.resume(opened)
    return GoingOn(f"Going on with: {opened.conversation.title}")


# Knobs


def set_knob(session: ChatSession, words: str) -> str:
    """Say or turn knobs."""
    name, _, value = words.partition(" ")
    key, names = name.replace("-", "_"), [field.name for field in fields(Knobs)]
    if name and key not in names:
        raise UsageError(f"There is no knob {name!r}{nearest(name, map(title, names))}")
    if value.strip():
        if (fixed := session.models.fixed.get(key)) is not None:
            raise UsageError(fixed.sentence)
        text = "" if value.strip() == '""' else value.strip()
        given = text if SETTINGS[key].kind is not tuple else [unescaped(text)] if text else []
        session.knobs = replace(session.knobs, **{key: convert(key, given, "/set")}).checked()
    known = ((key, getattr(session.knobs, key), spec_of(Knobs, key)) for key in ([key] if name else names))
    return "\n".join(f"{title(key)} {spec.words.get(value) or shown(value)}: {spec.help}" for key, value, spec in known)


def reset(session: ChatSession, words: str) -> str:
    """Turn every knob back to its default."""
    session.knobs = session.user_knobs.defaults
    return Remark("Every knob has its default.")


def think(session: ChatSession, words: str) -> str:
    """Have the model think before its replies, or not."""
    if words not in ("", "on", "off"):
        raise UsageError("/think takes on or off; alone it switches.")
    target = session.models.target
    on = session.user_knobs.switch_thinking(target.thinks if target else None, words == "on" if words else None)
    return Remark(f"thinking: {'on' if on else 'off'} from the next prompt on")


def end_thinking(session: ChatSession, words: str) -> str:
    """End the thinking of the reply in progress, and have the answer."""
    if (fixed := session.models.fixed.get("reasoning_budget")) is not None:
        raise UsageError(f"The server cannot end a thought early. {fixed.sentence}")
    session.user_knobs.end_thinking()
    return ""


def schema(session: ChatSession, words: str) -> str:
    """Have new replies obey the JSON schema of a file; without words, none."""
    session.user_knobs.schema = (Path(words).name, read_schema(Path(words).expanduser())) if words else ("", "")
    return Remark(f"Replies obey {words} from now on: /schema alone ends it." if words else "Replies obey no schema.")


def profile(session: ChatSession, words: str) -> str:
    """List profiles, or turn the knobs to one."""
    knobs = session.user_knobs
    if not words:
        return f"Profiles: {', '.join(knobs.profiles.names()) or 'none'}."
    knobs.take(knobs.profiles.load(words))
    knobs.profile = words
    return Remark(f"Profile {words}.")


def save(session: ChatSession, words: str, setup: Setup | None = None) -> str:
    """Save the knobs in the configuration, under a name; with a set-up, or without."""
    session.user_knobs.profiles.save(words, session.knobs, setup)
    session.user_knobs.profile = words
    return Remark(f"Saved: spectui chat -P {shlex.quote(words)} starts with it.")


# Models and devices


def load(session: ChatSession, words: str) -> str:
    """Load other models, by their files or by the numbers of the list; without words, these again."""
    try:
        files = shlex.split(words)
    except ValueError as error:
        raise UsageError(f"/load takes one or two files: {error}.") from None
    if len(files) > 2:
        raise UsageError("/load takes one or two files; one with spaces in its name stands in quotes.")
    models = session.models
    named = [numbered(models.listed, word, "model", "models").path if word.isdecimal() else word for word in files]
    if named:
        models.load_others(named[0], named[1] if len(named) > 1 else None)
    else:
        models.load_again()
    return ""


def placement(session: ChatSession, words: str) -> str:
    """Say the flags that place the models, or load them with others."""
    if not words:
        return f"Flags of the models: {flags_of(session.models.setup) or 'none'}."
    session.models.place(words)
    return ""


# Figures


def stats(session: ChatSession, words: str) -> str:
    """How fast it is, and whether drafting pays."""
    figures = session.figures()
    lines = [f"{pair(session)}; context {count(figures.n_context)} of {count(figures.n_ctx)} tokens."]
    if figures.reply.emitted:
        lines.append(f"Last reply: {summary_line(figures.reply)}; first token after {duration(figures.first_token_s)}.")
    if figures.chat.emitted:
        lines.append(f"This chat: {summary_line(figures.chat)}.")
    counted = [f"The server has counted {line}." for line in sentences.counted_lines(figures.counted)]
    return "\n".join([*lines, *payoff_lines(figures), *counted])


def token(session: ChatSession, words: str) -> str:
    """Where a token of the last reply came from."""
    last = session.last_reply
    tokens = [(token, round) for round in last.rounds for token in round.tokens] if last is not None else []
    if not tokens:
        raise UsageError("There is no reply yet.")
    number = int(words or -1) if re.fullmatch(r"(-?\d{1,9})?", words) else 0
    nth = number if number > 0 else len(tokens) + 1 + number
    if not 0 < nth <= len(tokens):
        raise UsageError(f"/token takes a number up to {len(tokens)}, or from -1 back.")
    return "\n".join(token_lines(*tokens[nth - 1], f"Token {nth} of {len(tokens)}"))
