"""Windows over the chat: lists, questions, help."""
