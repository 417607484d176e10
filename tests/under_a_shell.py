"""A shell in the shell's place: it leads the terminal's session and waits for `tests.scripted chat`, its child."""

import subprocess
import sys

if __name__ == "__main__":
    subprocess.run([sys.executable, "-m", "tests.scripted", "chat", "-m", "/models/some.gguf"], check=False)
