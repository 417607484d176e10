"""Units of systemd and launchd, and docker compose's files, as people write them."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from spectui.errors import SpectuiError
from spectui.profiles.formats import FORMATS, detect
from spectui.profiles.imported import ENVIRONMENT, NOT_KNOWN, NOT_USED, STARTED_BY, ImportedFile
from spectui.profiles.scripts.compose import OF_COMPOSE
from spectui.profiles.scripts.units import NOT_READ, OF_LAUNCHD, OF_SYSTEMD

UNIT = """\
[Unit]
Description=llama.cpp server
After=network-online.target

[Service]
Type=simple
User=llama
WorkingDirectory=/opt/llama.cpp
Environment="CUDA_VISIBLE_DEVICES=0" LLAMA_ARG_CTX_SIZE=8192
Environment='MODELS=/srv/my models'
EnvironmentFile=-/etc/default/llama
ExecStart=/opt/llama.cpp/build/bin/llama-server \\
    --model "${MODELS}/a.gguf" \\
    # --port 8081 \\
    --n-gpu-layers 99 $EXTRA \\
    --port 8080
Restart=on-failure

[Install]
WantedBy=multi-user.target
"""

PLIST = """\
<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0"><dict>
  <key>Label</key><string>llama</string>
  <key>ProgramArguments</key><array>
    <string>/opt/homebrew/bin/llama-server</string><string>-m</string><string>m/a b.gguf</string>
    <string>-c</string><string>4096</string>
  </array>
  <key>WorkingDirectory</key><string>/Users/me</string>
  <key>EnvironmentVariables</key><dict><key>LLAMA_ARG_N_GPU_LAYERS</key><string>99</string></dict>
  <key>RunAtLoad</key><true/>
</dict></plist>
"""

COMPOSE = """\
services:
  coder:
    image: ghcr.io/ggml-org/llama.cpp:server-cuda
    restart: unless-stopped
    ports: ["8080:8080"]
    volumes:
      - ./models:/models:ro
      - type: bind
        source: /srv/drafts
        target: /drafts
    environment:
      - CUDA_VISIBLE_DEVICES=0
      - LLAMA_ARG_N_GPU_LAYERS=99
    command: >
      -m /models/${MODEL:-a b.gguf}
      --ctx-size ${SPECTUI_CTX:-8192} --port 8080
      -t ${SPECTUI_THREADS}
  chat:
    build: .
    environment: {LLAMA_ARG_CTX_SIZE: 4096}
    volumes: ["~/m:/m"]
    entrypoint: ["/app/llama-server"]
    command: ["-m", "/m/b.gguf", "--temp", "0.5"]
  webui:
    image: ghcr.io/open-webui/open-webui:main
"""


def left_out(found: ImportedFile, number: int = 0) -> dict[str, list[str]]:
    reasons: dict[str, list[str]] = {}
    for reason, what in (*found.profiles[number].left_out, *found.left_out):
        reasons.setdefault(reason, []).append(what)
    return reasons


def test_a_unit_of_systemd() -> None:
    assert detect(UNIT, "-") == detect("", "a.service") == "systemd"
    found = FORMATS["systemd"].read(UNIT, None)
    assert [each.settings for each in found.profiles] == [
        {"model": "/srv/my models/a.gguf", "ctx_size": 8192, "gpu_layers": 99}
    ]
    assert left_out(found) == {
        ENVIRONMENT: ["CUDA_VISIBLE_DEVICES=0", "MODELS=/srv/my models"], NOT_KNOWN: ["$EXTRA"], NOT_USED: ["--port 8080"],
        NOT_READ: ["-/etc/default/llama"], OF_SYSTEMD: ["Type", "User", "Restart"],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("lines", "model"),
    [
        ("ExecStart=llama-server -m %h/a.gguf", "~/a.gguf"),
        ("ExecStart=-/usr/bin/env llama-server -m /m/%i.gguf", "/m/coder.gguf"),
        ("ExecStart=\nExecStart=old\nExecStart=\nExecStart=llama-server -m /m/a.gguf", "/m/a.gguf"),
        ("WorkingDirectory=~\nExecStart=./llama-server -m a.gguf", "~/a.gguf"),
        ("ExecStart=/bin/bash -c 'cd /m && exec llama-server -m $$PWD/a.gguf'", "/m/a.gguf"),
        ("Environment=ARGS=\"-m /m/a.gguf\"\nExecStart=llama-server $ARGS", "/m/a.gguf"),
        ("Environment=\"ARGS=-m /m/a.gguf\"\nExecStart=llama-server $ARGS", "/m/a.gguf"),
        (r'ExecStart=llama-server -m "/m/a\x20b.gguf" -a It\'s', "/m/a b.gguf"),
        ("ExecStart=/usr/bin/podman run --rm -v /srv:/models:Z llama.cpp:server -m /models/a.gguf", "/srv/a.gguf"),
    ],
)  # fmt: skip
def test_what_stands_for_others_in_a_unit(lines: str, model: str) -> None:
    found = FORMATS["systemd"].read(f"[Service]\n{lines}\n", Path("/etc/llama@coder.service"))
    assert found.profiles[0].settings == {"model": os.path.expanduser(model)}


def test_variables_of_a_units_files_and_its_shell(tmp_path: Path) -> None:
    (tmp_path / "env").write_text("# mine\nMODEL='/m/a b.gguf'\nMORE=\"-c 5\"  # five\nexport N=9\n")
    unit = f"[Service]\nEnvironmentFile=-{tmp_path}/none\nEnvironmentFile={tmp_path}/env\nEnvironment=D=/m\n"
    found = FORMATS["systemd"].read(unit + "ExecStart=llama-server -m ${MODEL} $MORE -ngl ${N}\n", None)
    assert found.profiles[0].settings == {"model": "/m/a b.gguf", "ctx_size": 5, "gpu_layers": 9}
    assert left_out(found)[NOT_READ] == [f"-{tmp_path}/none"]
    for script in ("exec llama-server -m $$D/%i.gguf -t $$(nproc)", "llama-server -m ${D}/%i.gguf -c ${NOWHERE}"):
        found = FORMATS["systemd"].read(f"{unit}ExecStart=/bin/bash -c '{script}'\n", Path("/etc/llama@qwen.service"))
        assert found.profiles[0].settings == {"model": "/m/qwen.gguf"}
    with pytest.raises(SpectuiError, match=r"^-m is /m/%i\.gguf, which only a run can tell"):
        FORMATS["systemd"].read("[Service]\nExecStart=/bin/sh -c 'llama-server -m /m/%i.gguf'\n", None)
    found = FORMATS["systemd"].read("[Service]\nExecStart=/bin/sh -c 'llama-server -m $HOME/a.gguf'\n", None)
    assert found.profiles[0].settings == {"model": os.path.expanduser("~/a.gguf")}
    assert ENVIRONMENT not in left_out(found)


def test_a_container_of_podman() -> None:
    text = (
        "[Container]\nImage=ghcr.io/ggml-org/llama.cpp:server\nVolume=%h/models:/models\nEnvironment=LLAMA_ARG_CTX_SIZE=5\n"
        "Exec=-m /models/a.gguf --port 80 -md /d/b.gguf --spec-type mtp\nPublishPort=80:80\nMount=type=bind,src=/d,dst=/d\n"
    )
    assert detect(text, "-") == "systemd"
    found = FORMATS["systemd"].read(text, None)
    assert found.profiles[0].settings == {
        "model": os.path.expanduser("~/models/a.gguf"), "draft": "/d/b.gguf", "ctx_size": 5, "drafter": "mtp"
    }  # fmt: skip
    assert left_out(found)[STARTED_BY] == ["ghcr.io/ggml-org/llama.cpp:server"]


IMAGE = "llama.cpp:server"
RUN_IN = "docker run -v /srv:/models --entrypoint sh"


@pytest.mark.parametrize(
    ("form", "text", "model"),
    [
        ("llama-server", f"cd /opt\ndocker run -v ./m:/models {IMAGE} -m /models/a.gguf", "/opt/m/a.gguf"),
        ("llama-server", f"cd /opt\n{RUN_IN} -w /models {IMAGE} -c 'llama-server -m a.gguf'", "/srv/a.gguf"),
        ("llama-server", f"cd /opt\n{RUN_IN} {IMAGE} -c 'cd models && llama-server -m a.gguf'", "/srv/a.gguf"),
        ("batch", f"cd /d C:\\l\ndocker run -v .\\m:/models {IMAGE} -m /models/a.gguf", "C:\\l\\m/a.gguf"),
        ("systemd", f"[Service]\nWorkingDirectory=/opt\nExecStart=docker run -v ./m:/models {IMAGE} -m /models/a.gguf\n",
         "/opt/m/a.gguf"),
        ("systemd", f"[Container]\nImage={IMAGE}\nVolume=/srv:/models\nWorkingDir=/models\nExec=-m a.gguf\n", "/srv/a.gguf"),
        ("compose", f"services:\n  a:\n    image: {IMAGE}\n    volumes: ['/srv:/models']\n    entrypoint: [sh, -c]\n"
         "    command: ['cd /models && llama-server -m a.gguf']\n", "/srv/a.gguf"),
    ],
)  # fmt: skip
def test_where_relative_paths_of_a_container_start(form: str, text: str, model: str) -> None:
    (profile,) = FORMATS[form].read(text, None).profiles
    assert profile.settings == {"model": model}


@pytest.mark.parametrize(
    "text",
    [f"cd $NOWHERE\ndocker run -v ./m:/models {IMAGE} -m /models/a.gguf",
     f"{RUN_IN} {IMAGE} -c 'cd $NOWHERE && llama-server -m a.gguf'"],
)  # fmt: skip
def test_a_containers_directory_that_only_a_run_can_tell(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOWHERE", raising=False)
    with pytest.raises(SpectuiError, match="only a run can tell: write the"):
        FORMATS["llama-server"].read(text, None)


def test_a_property_list_of_launchd() -> None:
    assert detect(PLIST, "-") == detect("", "a.plist") == "launchd"
    found = FORMATS["launchd"].read(PLIST, None)
    assert found.profiles[0].settings == {"model": "/Users/me/m/a b.gguf", "ctx_size": 4096, "gpu_layers": 99}
    assert left_out(found) == {OF_LAUNCHD: ["Label", "RunAtLoad"]}
    commented = PLIST.replace("<array>", "<array><!-- the server, without --flash-attn -->")
    assert FORMATS["launchd"].read(commented, None).profiles == found.profiles


def test_a_file_of_docker_compose(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MODEL", "SPECTUI_CTX", "SPECTUI_THREADS"):
        monkeypatch.delenv(name, raising=False)
    assert detect(COMPOSE, "docker-compose.yml") == detect(COMPOSE, "-") == "compose"
    (tmp_path / ".env").write_text("# mine\nMODEL='c.gguf'\r\n")
    found = FORMATS["compose"].read(COMPOSE, tmp_path / "compose.yaml")
    assert {each.name: each.settings for each in found.profiles} == {
        "coder": {"model": f"{tmp_path}/models/c.gguf", "ctx_size": 8192, "gpu_layers": 99},
        "chat": {"model": os.path.expanduser("~/m/b.gguf"), "ctx_size": 4096, "temperature": 0.5},
    }
    assert left_out(found) == {
        STARTED_BY: ["ghcr.io/ggml-org/llama.cpp:server-cuda"], ENVIRONMENT: ["CUDA_VISIBLE_DEVICES=0"],
        NOT_USED: ["--port 8080"], NOT_KNOWN: ["-t ${SPECTUI_THREADS}"], OF_COMPOSE: ["restart", "ports"],
    }  # fmt: skip
    assert found.refused == {
        "webui": "it starts the image 'ghcr.io/open-webui/open-webui:main', which is not llama.cpp's."
    }


def test_variables_of_docker_compose(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BASE", "DIR", "CTX", "ALIAS", "NGL"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / ".env").write_text(
        'BASE=/srv\nDIR=${BASE}/my models # where\nCTX=5 # tokens\nALIAS="a # b"\nURL=http://x/#y\n'
    )
    text = (
        "services:\n  base:\n    image: llama.cpp:server\n    volumes: ['${DIR}:/m']\n"
        "  a:\n    extends: {service: base}\n    environment: {N: 9}\n    entrypoint: [/bin/sh, -c]\n    command:\n"
        "      - exec llama-server -m /m/a.gguf -c ${CTX} -ngl $$N --alias '${ALIAS}' --api-key ${SPECTUI_KEY:?set it} -t $$T\n"
    )
    found = FORMATS["compose"].read(text, tmp_path / "compose.yaml")
    (profile,) = [each for each in found.profiles if each.settings]
    assert profile.settings == {"model": "/srv/my models/a.gguf", "ctx_size": 5, "gpu_layers": 9}
    assert [what for reason, what in profile.left_out if reason == NOT_KNOWN] == ["-t $T"]


@pytest.mark.parametrize(
    ("form", "text", "sentence"),
    [
        ("systemd", "[Unit]\nDescription=x\n", "There is neither [Service] nor [Container] in it"),
        ("systemd", "[Service]\nType=simple\n", "There are 0 lines ExecStart= in the unit: leave one."),
        ("systemd", "[Service]\nExecStart=vllm serve x\n", "it starts 'vllm', which is no program of llama.cpp."),
        ("systemd", "[Service]\nExecStart=llama-server \\", "A line is cut off"),
        ("systemd", "[Service]\nExecStart=llama-server -m 'x\n", "quotes are not closed"),
        ("systemd", "[Service]\nExecStart=llama-server -m /m/%i.gguf\n", "-m is /m/%i.gguf, which only a run can tell"),
        ("launchd", "<plist>", "It is not a valid property list"),
        ("launchd", PLIST.replace("ProgramArguments", "X"), "There are no ProgramArguments in it"),
        ("compose", "services: []\n", "There are no services in it"),
        ("compose", "services:\n  a: {image: redis}\n", "No service in it can be imported; of a: it starts the image 'redis'"),
        ("compose", "services:\n  a: {image: 'llama.cpp:server', command: '-m /x.gguf'}\n", "of a: its -m /x.gguf is a path"),
        ("compose", "services:\n  a: {image: 'llama.cpp:server', command: '-m \"/x.gguf'}\n", "of a: quotes are not closed"),
    ],
)  # fmt: skip
def test_a_bad_file_gets_one_sentence(form: str, text: str, sentence: str) -> None:
    with pytest.raises(SpectuiError) as error:
        FORMATS[form].read(text, None)
    assert sentence in str(error.value) and "\n" not in str(error.value)


PIECES = st.sampled_from(
    ["[Service]", "[Container]", "\n", "ExecStart=", "Environment=", "Image=", "Exec=", "Volume=", "llama-server", " -m ", "/x",
     "%h", "%i", "$A", "${A}", "\\", '"', "'", "services:", "  a:", " {", "}", "[", "]", "image: ", "command: ", "${A:-b}",
     "${A:?", "- ", "a:", "\n\t", "$(A)", "A = ", "A += $(A)", "$$", "@", "volumes: ",
     ":", "<plist>", "<dict>", "</dict>", "</plist>", "<key>ProgramArguments</key>", "<array>", "#"]
)  # fmt: skip


@pytest.mark.parametrize("form", ["systemd", "launchd", "compose", "make"])
@hypothesis_settings(max_examples=150, deadline=None)
@given(text=st.lists(PIECES, max_size=24).map("".join))
def test_any_text_is_a_profile_or_one_sentence(form: str, text: str) -> None:
    with suppress(SpectuiError):
        FORMATS[form].read(text, None)
