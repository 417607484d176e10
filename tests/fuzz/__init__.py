"""Every way in, fed with whatever atheris finds: `python -m tests.fuzz NAME [SECONDS]`, by hand (the extra `fuzz`)."""
