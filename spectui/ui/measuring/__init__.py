"""The page that measures the pair of a chat: bench, costs, tune and compare."""
