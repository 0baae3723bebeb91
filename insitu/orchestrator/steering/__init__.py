"""What the loop does next: which trials to add, or how the experiment ends.

Public: `endings` (``Ending``, ``Outcome``, ``Step``, ``Steering``), and `choice.steering_of`, which finds the one
of a plan. Every steering decides from the stored trials alone, so that a run that was killed goes on as it would
have.
"""
