"""Where models come from, beside files of this machine: the hub, and servers."""
