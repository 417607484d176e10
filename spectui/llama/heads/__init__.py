"""A model's own heads, which foresee the tokens behind the next one: multi-token prediction."""
