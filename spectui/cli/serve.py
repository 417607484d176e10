"""`spectui serve`: the models of this machine for agents and editors, by the protocols that they speak."""

from __future__ import annotations

import logging
import socket
from contextlib import ExitStack
from dataclasses import replace
from operator import methodcaller
from pathlib import Path
from time import strftime
from typing import TYPE_CHECKING, Any

import click

from spectui.cli.models.hub import fetched, hub_options
from spectui.cli.options import ENGINE, INTERRUPTED, Command, color_option, configuration, setting_options
from spectui.cli.run import Printer, outcome, stopping
from spectui.errors import SpectuiError, UsageError

if TYPE_CHECKING:
    from spectui.engine.requests import Request
    from spectui.serve.answer import Answer

LOOPBACK = ("127.0.0.1", "localhost", "::1")

_MISSING = "spectui serve needs two packages more: pip install 'spectui[serve]'."


@click.command("serve", cls=Command)
@click.option("--host", default="127.0.0.1", metavar="ADDRESS", help="listen there (default 127.0.0.1); others need a key")
@click.option("--port", type=click.IntRange(0, 65535), default=8080, metavar="N", help="the port (default 8080)")
@click.option(
    "--api-key-file", type=click.Path(path_type=Path), metavar="FILE", help="clients must send the key that this file has"
)
@click.option("-a", "--alias", default="", metavar="NAME", help="the model's name for clients (default: its file's)")
@click.option("--cors", default="", metavar="ORIGIN", help="the origin of web pages that may ask")
@click.option("--print", "client", metavar="CLIENT", help="print what to put into a client's settings, and end")
@color_option
@hub_options
@setting_options(*ENGINE, "ui")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    host: str,
    port: int,
    api_key_file: Path | None,
    alias: str,
    cors: str,
    client: str | None,
    profile: str | None,
    config_path: Path | None,
    no_color: bool,
    hub_target: str | None,
    hub_draft: str | None,
    **values: Any,
) -> None:
    """Serve the models to agents and editors.

    It has OpenAI's endpoints, Anthropic's and llama-server's. A line for each request goes to standard output.
    """
    if client is not None:
        from spectui.serve.clients import settings_of

        click.echo(settings_of(client, f"http://{host}:{port}", alias or "spectui"))
        return
    settings = configuration(profile, config_path, values)
    key = _key(api_key_file)
    if host not in LOOPBACK and not key:
        raise UsageError(f"--host {host} can be reached by others, so clients need a key: name its file with --api-key-file.")
    try:
        import uvicorn

        from spectui.serve.app import Server
        from spectui.serve.http import Access
    except ImportError as error:
        raise UsageError(_MISSING) from error
    from spectui.engine.demo import default_setup
    from spectui.engine.isolation.process import engine_for
    from spectui.engine.requests import Requests

    setup = default_setup(fetched(settings, hub_target, hub_draft))
    kept = "off" if settings.ui.no_history == "on" else "on"
    setup = replace(setup, keep_read=kept if setup.keep_read == "auto" else setup.keep_read)
    with ExitStack() as ending:
        listening = ending.enter_context(_listening(host, port))
        engine = engine_for(setup, settings.knobs)
        ending.callback(engine.close)
        printer = Printer(text=False, colours=False)
        ending.callback(printer.end)
        with stopping(engine.stop) as stopped:
            try:
                loaded = outcome(engine, engine.call(methodcaller("load", setup)), printer)
            except SpectuiError:
                if stopped:
                    ctx.exit(INTERRUPTED)
                raise
        engine.knobs = settings.recommended(loaded.sampling, loaded.target.path).knobs
        requests = Requests(engine)
        ending.callback(requests.close)
        engine.events.clear()
        server = Server(requests, engine, loaded, Access(host, key, cors), alias, _tell)
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        config = uvicorn.Config(
            server.app, lifespan="off", log_config=None, access_log=False, limit_concurrency=256, server_header=False
        )
        name, number = listening.getsockname()[:2]
        click.echo(
            f"spectui: http://{f'[{name}]' if ':' in name else name}:{number}/v1 serves {server.name}; Ctrl+C ends it.",
            err=True,
        )
        uvicorn.Server(config).run(sockets=[listening])


def _key(file: Path | None) -> str:
    """The key that clients must send; "" for none. Raises UsageError."""
    if file is None:
        return ""
    from spectui.attach.address import read_key

    return read_key(str(file))


def _listening(host: str, port: int) -> socket.socket:
    """Raises SpectuiError."""
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=128)
    except OSError as error:
        raise SpectuiError(
            f"{host} port {port} cannot be listened on ({error.strerror or error}): choose another --port."
        ) from error


def _tell(request: Request, answer: Answer) -> None:
    """A line for a request that has ended."""
    figures, (total, reused) = answer.statistics, answer.read
    speed = f"{figures.emitted / figures.decode_s:.1f} t/s" if figures.decode_s else "no text"
    accepted = f", {figures.acceptance:.0%} accepted" if figures.acceptance is not None else ""
    why = answer.why if not hasattr(answer.ended, "message") else f"failed: {answer.ended.message}"  # type: ignore[union-attr]
    click.echo(
        f"{strftime('%H:%M:%S')} {request.client or 'a client'}: {total} tokens read ({reused} reused), {figures.emitted} "
        f"written, {speed}{accepted}, {why}"
    )
