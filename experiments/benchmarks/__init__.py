"""Speed and accuracy, side by side with a peer, in one process: ``python -m experiments.benchmarks``.

Never part of the tests: these machines are noisy, and a ratio printed by hand says more than a timed assertion.
"""
