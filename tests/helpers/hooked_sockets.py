"""`python -m tests.helpers.hooked_sockets ...`: the program, which ends with 77 as soon as it would use the network."""

import os
import sys

WATCHED = ("socket.connect", "socket.bind", "socket.sendto", "socket.getaddrinfo", "socket.gethostbyname")


def watch(event: str, _: object) -> None:
    if event in WATCHED:
        os._exit(77)


if __name__ == "__main__":
    from spectui.cli import main

    sys.addaudithook(watch)
    main()
