"""What can keep the guest from running."""

from __future__ import annotations


class CannotRun(Exception):
    """This machine lacks something that the guest needs: the message says what, and what to do."""


class BuildFailed(Exception):
    """A tool that builds the guest failed: the message has its last words."""


class GuestFailed(Exception):
    """The guest did not come up, or ended without saying how its command ended."""
