"""`python -m tests.fuzz NAME [SECONDS]`: libFuzzer's report at the end says how many executions; a find is kept in a file."""

import os
import sys
import tempfile
from pathlib import Path

import click


@click.command()
@click.argument("name")
@click.argument("seconds", default=60)
def main(name: str, seconds: int) -> None:
    """Feed one target, or say which there are."""
    import atheris

    with atheris.instrument_imports(include=["spectui"]):
        from tests.fuzz.targets import TARGETS, home

    if name not in TARGETS:
        raise click.UsageError(f"The targets are {', '.join(TARGETS)}.")
    target, os.environ["SPECTUI_STATE_DIR"] = TARGETS[name], str(home())
    corpus = Path(tempfile.mkdtemp(prefix="spectui-corpus-"))
    for number, seed in enumerate(target.seeds()):
        (corpus / str(number)).write_bytes(seed)
    finds = f"-artifact_prefix={tempfile.gettempdir()}/spectui-{name}-"
    limits = [f"-max_total_time={seconds}", "-timeout=20", "-rss_limit_mb=2048", "-print_final_stats=1", "-max_len=20000"]
    atheris.Setup([sys.argv[0], *limits, finds, str(corpus)], target.run)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
