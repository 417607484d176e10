"""Where spectui replaces parts of Textual. Everything that needs a private name of Textual belongs here.

docs/contributing.md says which of these parts work around a fault of Textual.
"""

PRIVATE_NAMES: dict[str, tuple[str, ...]] = {
    "textual._ansi_sequences.ANSI_SEQUENCES_KEYS": (),
    "textual._callback.invoke": (),
    "textual._compositor.Compositor": ("_dirty_regions",),
    "textual._context.active_message_pump": (),
    "textual._xterm_parser.BRACKETED_PASTE_END": (),
    "textual._xterm_parser.BRACKETED_PASTE_START": (),
    "textual._parser.Parser": ("_awaiting", "_gen", "_timeout_time", "_tokens"),
    "textual._xterm_parser.XTermParser": ("_sequence_to_key_events",),
    "textual.app.App": (
        "_clipboard",
        "_dispatch_action",
        "_display",
        "_driver",
        "_exit",
        "_handle_exception",
    ),
    "textual.content._strip_control_codes": (),
    "textual.command.CommandPalette": ("_action_command_list",),
    "textual.document._history.EditHistory": ("_undo_stack",),
    "textual.dom.DOMNode": ("_pruning",),
    "textual.driver.Driver": ("_app", "_auto_restart", "_debug", "_loop"),
    "textual.drivers._writer_thread.MAX_QUEUED_WRITES": (),
    "textual.drivers._writer_thread.WriterThread": ("_queue",),
    "textual.drivers.linux_driver.LinuxDriver": (
        "_disable_line_wrap",
        "_enable_bracketed_paste",
        "_enable_in_band_window_resize",
        "_enable_mouse_pixels",
        "_enable_mouse_support",
        "_file",
        "_get_terminal_size",
        "_in_band_window_resize",
        "_key_thread",
        "_mouse_pixels",
        "_sigcont_application",
        "_writer_thread",
    ),
    "textual.message_pump.MessagePump": ("_closing", "_dispatch_message", "_is_mounted"),
    "textual.screen.Screen": ("_compositor", "_dirty_widgets", "_invoke_later", "_on_timer_update"),
    "textual.widget.Widget": ("_scroll_update", "_set_dirty"),
    "textual.widgets._footer.FooterKey": (),
}
"""Textual's classes and functions, each with its private names in use. A test checks that they exist."""
