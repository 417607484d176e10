"""Small libraries that claim to be that of spectui's kernels."""

import subprocess
from pathlib import Path
from shutil import which

import pytest

needs_a_compiler = pytest.mark.skipif(which("cc") is None, reason="there is no C compiler")

_SOURCE = """
int spectui_kernels_abi(void) { return ABI; }
const char *spectui_kernels_sets(void) { return SETS; }
int spectui_kernels_bind(const void *functions, const char *set) { return BIND; }
void spectui_kernels_request(int threads, int signs, int attention, int mapped) {}
void spectui_kernels_attend(void) {}
unsigned long spectui_kernels_bytes(int type, long k, long rows, long matrices) { return 0; }
int ggml_backend_score(void) { return 1; }
void *ggml_backend_init(void) { return 0; }
"""


def library(folder: Path, *flags: str, abi: int = 4, sets: str = "avx2", bind: int = 0, source: str = _SOURCE) -> Path:
    """Compile one with this number, these instruction sets and this answer to what ggml's functions are."""
    code, found = folder / "claims.c", folder / "libclaims.so"
    code.write_text(source)
    macros = (f"-DABI={abi}", f'-DSETS="{sets}"', f"-DBIND={bind}")
    subprocess.run(["cc", "-shared", "-fPIC", "-w", *macros, str(code), "-o", str(found), *flags], check=True)
    return found
