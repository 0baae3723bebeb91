"""A small virtual machine with control groups of version 2 and netem, for tests of both wherever we are.

``python -m tests.guest`` builds what it boots once (`image`), boots it (`qemu`), runs pytest in it (`inside`)
and ends with its exit status.
"""
