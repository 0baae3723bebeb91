"""What a statistician asks of a fit and of the graph, each with one sentence of what it means here."""
