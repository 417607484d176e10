"""A measurement in a process of its own, and what it tells as it goes on: a table that fills, a chart that grows."""
