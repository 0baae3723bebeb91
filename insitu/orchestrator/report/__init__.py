"""Renders a finished or running experiment to the terminal, HTML and JSON; computes nothing.

`summary.summarise` gathers what all three show; `terminal`, `page` and `document` render it, and `answers`
renders the answer to one question.
"""
