"""How pytest runs in the guest, where a processor is ten to twenty-five times slower than outside.

Random inputs are tried widely on the host: a few of them do here, and none has a deadline.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import hypothesis
import pytest

from insitu.injectors.node import survey
from tests.contract.injector_contract import InjectorContract

EXAMPLES = 10
_ALWAYS = ("tests/contract/", "tests/guest/")


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "only tests that need root's control groups, the guest's own, and contracts on this machine alone"
    parser.addoption("--this-machine", action="store_true", help=text)


def pytest_configure(config: pytest.Config) -> None:
    hypothesis.settings.register_profile(
        "guest", max_examples=EXAMPLES, deadline=None, database=None, derandomize=True
    )
    hypothesis.settings.load_profile("guest")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--this-machine"):
        return
    chosen = [i for i in items if i.nodeid.startswith(_ALWAYS) or i.get_closest_marker("root")]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(chosen)])
    items[:] = chosen
    here = cache(lambda: {"this machine": survey(Path("/tmp"))})
    InjectorContract.nodes = lambda contract: here()  # type: ignore[method-assign]
