"""Which trials to run, in which order, in which blocks; and when to stop."""
