"""Renders a finished or running experiment to the terminal, HTML and JSON; computes nothing."""
