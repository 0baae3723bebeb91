"""The designs that are fixed before a run, and what they are made of."""
