"""The blueprint: the graph of a model, its laws, their dimensions, and do()."""
