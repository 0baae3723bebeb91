"""The subject's network: a link of its own with a rate, a delay and losses, and everything behind it as in place.

`rates` and `delays` say what can be set, `actuator` brings it about with the help of a process (`server`) that
forks one gateway per trial. See docs/explanation/network.md.
"""
