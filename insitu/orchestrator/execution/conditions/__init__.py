"""Abort conditions: what the node must not come to while a trial runs, watched so that it ends within a second.

`host_state` reads the node, `watch` compares it with the plan's conditions, `prober` executes the user's probe
command in a process of its own, and `probing` is the agent's side of that.
"""
