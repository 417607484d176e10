"""A shell in the shell's place: it leads the terminal's session, waits for its child `tests.helpers.scripted`, then for a line.

When the terminal is hung up it tells nobody, and lives on.
"""

import signal
import subprocess
import sys

if __name__ == "__main__":
    signal.signal(signal.SIGHUP, lambda *_: None)  # not SIG_IGN, which the child would inherit
    code = subprocess.run([sys.executable, "-m", "tests.helpers.scripted", *sys.argv[1:]], check=False).returncode
    sys.stdin.readline()
    sys.exit(code)
