"""The figures about replies, how they are written, and the sentences that explain them."""
