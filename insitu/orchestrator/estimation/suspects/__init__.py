"""Causes outside the model that what was measured of a trial speaks for."""
