"""How pytest runs in the guest, where a processor is ten to twenty-five times slower than outside.

Random inputs are tried widely on the host: a few of them do here, and none has a deadline.
"""

from __future__ import annotations

import hypothesis
import pytest

EXAMPLES = 10
_ALWAYS = ("tests/contract/", "tests/guest/")


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "only tests that need root's control groups, the plug-ins' contracts, and the guest's own"
    parser.addoption("--kernel-only", action="store_true", help=text)


def pytest_configure(config: pytest.Config) -> None:
    hypothesis.settings.register_profile(
        "guest", max_examples=EXAMPLES, deadline=None, database=None, derandomize=True
    )
    hypothesis.settings.load_profile("guest")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--kernel-only"):
        return
    chosen = [i for i in items if i.nodeid.startswith(_ALWAYS) or i.get_closest_marker("root")]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(chosen)])
    items[:] = chosen
