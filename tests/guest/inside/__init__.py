"""What runs in the guest: its first process, the groups it makes, and tests that only hold there."""
