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
_CONTRACTS, _GUESTS = "tests/contract/", "tests/guest/"
_MADE_UP = ("tests/injectors/test_crashes.py", "tests/injectors/test_verdicts.py")
"""Simulations of machines, which come out the same on every one."""
OF_A_MACHINE = frozenset(
    {
        "test_every_machine_gets_an_answer_that_says_why_not_and_what_to_do",
        "test_settings_are_in_the_trial_s_own_group_and_read_back_as_one_line",
        "test_the_ends_of_its_range_pass_the_check",
    }
)
"""What an injector promises of a machine; the other promises are the same on each, and kept on the host."""


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "only tests that need root's control groups, the guest's own, and contracts"
    parser.addoption("--this-machine", action="store_true", help=text)


def pytest_configure(config: pytest.Config) -> None:
    hypothesis.settings.register_profile(
        "guest", max_examples=EXAMPLES, deadline=None, database=None, derandomize=True
    )
    hypothesis.settings.load_profile("guest")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    wanted = _asks_this_machine if config.getoption("--this-machine") else _may_differ_here
    chosen = {item for item in items if wanted(item)}
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = [item for item in items if item in chosen]
    here = cache(lambda: {"this machine": survey(Path("/tmp"))})
    InjectorContract.nodes = lambda self: here()  # type: ignore[method-assign]


def _may_differ_here(item: pytest.Item) -> bool:
    """Whether a test looks at the machine; on machines that are made up, contracts are tried elsewhere."""
    if item.nodeid.startswith(_CONTRACTS):
        return getattr(item, "originalname", item.name) in OF_A_MACHINE
    return not item.nodeid.startswith(_MADE_UP)


def _asks_this_machine(item: pytest.Item) -> bool:
    if item.nodeid.startswith(_CONTRACTS):
        return _may_differ_here(item)
    return item.nodeid.startswith(_GUESTS) or item.get_closest_marker("root") is not None
