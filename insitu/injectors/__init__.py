"""Sets one variable on one node to a level, verifies it, and puts everything back.

Knows nothing of the orchestrator. The life cycle is written once (`lifecycle`); an injector supplies small
hooks. Every undo is data in a journal before the first write.
"""
