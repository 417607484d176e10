"""A shell in the shell's place: it leads the terminal's session, and waits for its child `tests.helpers.scripted`.

With JOBS in the environment the child is a job: it can be stopped, and is told when the terminal is hung up. Without, nobody
tells the child anything; when it has ended, the shell reads a line. A terminal that is hung up does not end this shell.
"""

import os
import signal
import subprocess
import sys


def run_a_job(command: list[str]) -> int:
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    job = os.fork()
    if not job:
        os.setpgid(0, 0)
        os.tcsetpgrp(0, os.getpid())
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        os.execv(command[0], command)

    def hung_up(*_: object) -> None:
        for number in (signal.SIGHUP, signal.SIGCONT):
            os.killpg(job, number)

    signal.signal(signal.SIGHUP, hung_up)
    code = os.waitstatus_to_exitcode(os.waitpid(job, 0)[1])
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    command = [sys.executable, "-m", "tests.helpers.scripted", *sys.argv[1:]]
    if "JOBS" in os.environ:
        sys.exit(run_a_job(command))
    signal.signal(signal.SIGHUP, lambda *_: None)  # not SIG_IGN, which the child would inherit
    code = subprocess.run(command, check=False).returncode
    sys.stdin.readline()
    sys.exit(code)
