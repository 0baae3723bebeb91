"""Runs, trials and samples on disk: durable before the next trial starts, resumable, never pickled."""
