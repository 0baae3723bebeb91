"""Kill something of a working node at random, many times, and count what is on the machine before and after.

``python -m tests.recovery.soak --kills 500`` takes about half an hour.
"""
