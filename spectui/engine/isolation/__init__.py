"""An engine in a process of its own, for devices whose failure ends the process."""
