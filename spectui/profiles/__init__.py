"""Profiles: settings under a name, in the configuration file and as other programs write them."""
