"""`spectui serve`: the models of this machine for agents and editors, by the protocols that they speak."""

from __future__ import annotations

import socket
from collections import deque
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from operator import methodcaller
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import click

from spectui.attach.address import read_key
from spectui.cli.models.server import ModelOptions
from spectui.cli.options import ENGINE, INTERRUPTED, SERVER, Command, color_option, setting_options
from spectui.cli.run import Printer, outcome, stopping
from spectui.cli.terminal import is_terminal
from spectui.errors import SpectuiError, UsageError

if TYPE_CHECKING:
    from spectui.config import Configuration
    from spectui.serve.watching import WatchedEngine

_CLIENTS = {
    "opencode": """In opencode.json:
{{"provider": {{"spectui": {{"npm": "@ai-sdk/openai-compatible", "options": {{"baseURL": "{url}/v1"}},
  "models": {{"{model}": {{}}}}}}}}, "model": "spectui/{model}"}}""",
    "zed": """In settings.json, with SPECTUI_API_KEY=none in the environment:
{{"language_models": {{"openai_compatible": {{"spectui": {{"api_url": "{url}/v1",
  "available_models": [{{"name": "{model}", "max_tokens": 32768}}]}}}}}}}}""",
    "continue": """In config.yaml:
name: spectui
version: 1.0.0
schema: v1
models:
  - {{name: spectui, provider: openai, model: "{model}", apiBase: "{url}/v1", roles: [chat, edit, apply, autocomplete]}}""",
    "aider": "OPENAI_API_BASE={url}/v1 OPENAI_API_KEY=none aider --model openai/{model}",
    "codex": """In ~/.codex/config.toml:
model = "{model}"
model_provider = "spectui"
[model_providers.spectui]
name = "spectui"
base_url = "{url}/v1"
wire_api = "responses"
stream_idle_timeout_ms = 3600000""",
    "claude": """ANTHROPIC_BASE_URL={url} ANTHROPIC_AUTH_TOKEN=none ANTHROPIC_MODEL={model} \\
  CLAUDE_STREAM_IDLE_TIMEOUT_MS=3600000 API_TIMEOUT_MS=3600000 claude""",
}
"""What to put into their settings. Codex and Claude Code would give up after five minutes of reading."""

_MISSING = "spectui serve needs two packages more: pip install 'spectui[serve]'."


@click.command("serve", cls=Command)
@click.option("--host", default="127.0.0.1", metavar="ADDRESS", help="listen there (default 127.0.0.1); others need a key")
@click.option("--port", type=click.IntRange(0, 65535), default=8080, metavar="N", help="the port (default 8080)")
@click.option(
    "--api-key-file", type=click.Path(path_type=Path), metavar="FILE", help="clients must send the key that this file has"
)
@click.option("-a", "--alias", default="", metavar="NAME", help="the model's name for clients (default: its file's)")
@click.option("--cors", default="", metavar="ORIGIN", help="the origin of web pages that may ask")
@click.option("--plain", is_flag=True, help="a line for each request, no window")
@click.option("--print", "client", metavar="CLIENT", help="print what to put into a client's settings, and end")
@color_option
@setting_options(*ENGINE, "ui", kind=ModelOptions, without=SERVER)
@click.pass_context
def command(
    ctx: click.Context,
    /,
    options: ModelOptions,
    host: str,
    port: int,
    api_key_file: Path | None,
    alias: str,
    cors: str,
    plain: bool,
    client: str | None,
) -> None:
    """Serve the models to agents and editors.

    It has OpenAI's endpoints, Anthropic's and llama-server's. In a terminal it is the window, with the requests as they
    come; elsewhere a line for each goes to standard output.
    """
    if client is not None:
        click.echo(_settings_of(client, f"http://{host}:{port}", alias or "spectui"))
        return
    settings = options.settings
    key = read_key(str(api_key_file)) if api_key_file is not None else ""
    try:
        import uvicorn

        from spectui.serve.app import LOOPBACK, Access, Server
    except ImportError as error:
        raise UsageError(_MISSING) from error
    from spectui.engine.demo import default_setup
    from spectui.engine.events import Notice
    from spectui.engine.isolation.process import engine_for
    from spectui.engine.protocol import also
    from spectui.engine.requests import Requests
    from spectui.serve.watching import WatchedEngine, in_words

    if host not in LOOPBACK and not key:
        raise UsageError(f"--host {host} can be reached by others, so clients need a key: name its file with --api-key-file.")
    setup = default_setup(options.own_setup())
    kept = "off" if settings.ui.no_history == "on" else "on"
    setup = replace(setup, keep_read=kept if setup.keep_read == "auto" else setup.keep_read)
    in_window = is_terminal() and not plain
    with ExitStack() as ending:
        listening = ending.enter_context(_listening(host, port))
        engine = engine_for(setup, settings.knobs, restarts=True)
        ending.callback(engine.close)
        printer = Printer(text=False, colours=False)
        ending.callback(printer.end)
        with stopping(engine.stop) as stopped:
            loaded = outcome(engine, engine.call(methodcaller("load", setup)), printer)
        if stopped:
            ctx.exit(INTERRUPTED)
        engine.knobs = settings.recommended(loaded.sampling, loaded.target.path).knobs
        engine.events = deque(maxlen=0)  # nobody takes them
        requests = Requests(engine)
        ending.callback(requests.close)
        if not in_window:
            engine.listen = also(engine.listen, lambda event: printer(event) if isinstance(event, Notice) else None)
            requests.ended = lambda request: click.echo(in_words(request))
        server = Server(requests, engine, loaded.target, Access(host, key, cors), alias)
        http = uvicorn.Server(
            uvicorn.Config(
                server.app,
                lifespan="off",
                log_config=None,
                log_level="critical",
                limit_concurrency=256,
                server_header=False,
                timeout_graceful_shutdown=1,
            )
        )
        name, number = listening.getsockname()[:2]
        where = f"http://{f'[{name}]' if ':' in name else name}:{number}/v1"
        if not in_window:
            click.echo(f"spectui: {where} serves {server.name}; Ctrl+C ends it.", err=True)
            http.run([listening])
            return
        thread = Thread(target=http.run, args=([listening],), name="spectui-http")
        thread.start()
        try:
            _window(WatchedEngine(requests, loaded), settings, where)
        finally:
            http.should_exit = True
            requests.close()  # so that no stream goes on
            thread.join()


def _settings_of(client: str, url: str, model: str) -> str:
    """The lines to paste. Raises UsageError."""
    if client.lower() not in _CLIENTS:
        raise UsageError(f"--print knows {', '.join(_CLIENTS)}, not {client}: others take {url}/v1 as OpenAI's address.")
    return _CLIENTS[client.lower()].format(url=url, model=model)


def _window(watched: WatchedEngine, settings: Configuration, where: str) -> None:
    """Show the requests until the window is closed."""
    from spectui.chat.session import ChatSession
    from spectui.telemetry.monitor import Monitor
    from spectui.ui.app import show
    from spectui.ui.screen.serve import ServeScreen

    session, screen = ChatSession(watched, watched.loaded.setup), partial(ServeScreen, watched=watched, where=where)
    died = "spectui died while it served."
    show(session, settings.ui, died, monitor=Monitor(), make_screen=screen)


def _listening(host: str, port: int) -> socket.socket:
    """Raises SpectuiError."""
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=128)
    except OSError as error:
        raise SpectuiError(
            f"{host} port {port} cannot be listened on ({error.strerror or error}): choose another --port."
        ) from error
