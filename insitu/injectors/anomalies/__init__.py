"""Contention that is added beside the subject: processes that use a resource, as much as a level says.

Open loop: what they ask for follows the clock and never what they, or the subject, got. They run in control
groups of their own, end with the server that forked them, and by a kernel timer of their own in any case.

- `levels`: the injectors, one per variable.
- `load`: what one of them asks for; `actuator` brings it about.
- `server` (a process): forks workers; `client` talks to it; `pace` is a worker's clock; `work` what it does.
- `board`: memory that workers write to and the agent reads; `counters`: what the kernel says of them.
"""
