"""What to put into the settings of agents and editors. Codex and Claude Code would give up after five minutes of reading."""

from __future__ import annotations

from spectui.errors import UsageError

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


def settings_of(client: str, url: str, model: str) -> str:
    """The lines to paste. Raises UsageError."""
    if client.lower() not in _CLIENTS:
        raise UsageError(f"--print knows {', '.join(_CLIENTS)}, not {client}: others take {url}/v1 as OpenAI's address.")
    return _CLIENTS[client.lower()].format(url=url, model=model)
