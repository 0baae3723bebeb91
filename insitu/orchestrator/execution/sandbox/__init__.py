"""One program in namespaces of its own, which end with it.

`launcher` is a small process that starts sandboxes, `init` is process 1 of one, `filesystem` is what the
subject sees, `kernel` the system calls that Python lacks, `client` the agent's side. The launcher imports
nothing but the standard library, so that it stays small: a fork copies its page tables for every trial.
"""
