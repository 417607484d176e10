"""`python -m spectui` and `spectui` are the program."""

import os


def main() -> None:
    """Run it. A Ctrl+C before it can be answered ends it as one behind that does."""
    try:
        from spectui.cli import main as program
    except KeyboardInterrupt:
        os._exit(130)
    program()


if __name__ == "__main__":
    main()
