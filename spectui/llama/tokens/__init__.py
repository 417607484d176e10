"""From messages and text to tokens and back: chat template, tokenizer, the vocabularies of two models."""
