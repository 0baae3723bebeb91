"""Runs and their answers from Python, for scripts and notebooks; the commands put their questions here, too.

Public: ``insitu.open_run``, which gives a `run.Run`. Nothing is imported here: pandas and statsmodels take their
time.
"""
