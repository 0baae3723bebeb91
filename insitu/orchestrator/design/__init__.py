"""Which trials to run, in which order, in which blocks; and when to stop.

Public: `protocol` (``Design``, ``find_design``, ``design_names``, ``replacement``) and `factorial`
(``Factorial``, ``count_trials``).
"""
