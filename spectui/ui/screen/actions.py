"""Which part of the chat screen carries out what a key of the table in `bindings` asks for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def _by(part: str, method: str) -> Callable[..., Any]:
    """An action that a part of the screen carries out."""

    def action(screen: object, *parameters: Any) -> Any:
        return getattr(getattr(screen, part), method)(*parameters)

    return action


class KeyActions:
    """The actions of a screen with these parts."""

    action_panel = _by("pages", "toggle")
    action_page = _by("pages", "turn")
    action_show_page = _by("pages", "show_by_key")
    action_devices = _by("pages", "show_devices")
    action_switch = _by("controls", "switch")
    action_switch_thinking = _by("controls", "switch_thinking")
    action_next_profile = _by("controls", "next_profile")
    action_save_profile = _by("controls", "save_profile")
    action_reset_knobs = _by("controls", "reset")
    action_models = _by("controls", "choose_models")
    action_placement = _by("controls", "change_placement")
    action_measure = _by("controls", "measure")
    action_load = _by("controls", "load_again")
    action_without_draft = _by("controls", "load_without_draft")
    action_safe_way = _by("controls", "load_safely")
    action_stop = _by("replies", "stop")
    action_again = _by("replies", "regenerate")
    action_continue = _by("replies", "continue_last")
    action_drop = _by("replies", "drop_oldest")
    action_undrop = _by("replies", "bring_back")
    action_compare = _by("replies", "compare")
    action_edit = _by("messages", "edit_last")
    action_undo_turn = _by("messages", "undo")
    action_messages = _by("messages", "list")
    action_system_prompt = _by("messages", "show_system_prompt")
    action_new_chat = _by("conversations", "begin_new")
    action_go_on = _by("conversations", "open_offer")
    action_conversations = _by("conversations", "list")
    action_colours = _by("reading", "toggle_colours")
    action_ghosts = _by("reading", "toggle_ghosts")
    action_thinking = _by("reading", "toggle_thinking")
    action_scroll = _by("reading", "scroll")
    action_inspect = _by("reading", "toggle_inspection")
    action_read = _by("reading", "show_markdown")
    action_copy_code = _by("reading", "copy_code")
    action_export = _by("reading", "ask_export")
