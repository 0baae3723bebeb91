"""These tests are of the guest's kernel and layout, and change groups as only a machine of our own allows."""

from __future__ import annotations

from pathlib import Path

collect_ignore_glob = [] if Path("/exchange/order.json").exists() else ["test_*.py"]
