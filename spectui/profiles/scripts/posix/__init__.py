"""Scripts of sh, bash and zsh: their words, what they set, and which of their ways are gone."""
