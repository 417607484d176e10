"""`python -m spectui` is the program `spectui`."""

from spectui.cli import main

if __name__ == "__main__":
    main()
