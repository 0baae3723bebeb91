"""Which processors a subject gets, and lists of them as the kernel writes them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from insitu.injectors.processors import in_order, parse_list, spell_list


def machine(folder: Path, siblings: dict[int, str]) -> Path:
    for cpu, text in siblings.items():
        topology = folder / f"cpu{cpu}/topology"
        topology.mkdir(parents=True)
        (topology / "thread_siblings_list").write_text(f"{text}\n")
    return folder


@pytest.mark.parametrize(
    ("siblings", "order"),
    [
        (
            {0: "0,4", 1: "1,5", 2: "2,6", 3: "3,7", 4: "0,4", 5: "1,5", 6: "2,6", 7: "3,7"},
            (0, 1, 2, 3, 4, 5, 6, 7),
        ),
        ({0: "0-1", 1: "0-1", 2: "2-3", 3: "2-3"}, (0, 2, 1, 3)),
        ({0: "0-3", 1: "0-3", 2: "0-3", 3: "0-3", 4: "4-7", 5: "4-7"}, (0, 4, 1, 5, 2, 3)),
        ({0: "0", 1: "1"}, (0, 1)),
    ],
)
def test_siblings_of_one_core_come_last(tmp_path: Path, siblings: dict[int, str], order: tuple[int, ...]) -> None:
    assert in_order(siblings, machine(tmp_path, siblings)) == order


def test_a_core_of_which_only_one_thread_is_allowed_counts_whole(tmp_path: Path) -> None:
    siblings = {0: "0-1", 1: "0-1", 2: "2-3", 3: "2-3"}
    assert in_order({1, 2, 3}, machine(tmp_path, siblings)) == (1, 2, 3)


def test_a_machine_that_says_nothing_of_cores(tmp_path: Path) -> None:
    assert in_order({3, 1, 2}, tmp_path) == (1, 2, 3)


def test_here_all_allowed_are_there_once() -> None:
    allowed = os.sched_getaffinity(0)
    assert sorted(in_order(allowed)) == sorted(allowed)


@pytest.mark.parametrize(
    ("text", "cpus"),
    [("0", {0}), ("0-1", {0, 1}), ("0,2-4,9", {0, 2, 3, 4, 9}), ("", set()), ("\n", set())],
)
def test_a_list_is_read(text: str, cpus: set[int]) -> None:
    assert parse_list(text) == cpus


@given(st.sets(st.integers(0, 300)))
def test_a_list_reads_back(cpus: set[int]) -> None:
    text = spell_list(cpus)
    assert parse_list(text) == cpus
    assert text.count(",") + text.count("-") <= 2 * len(cpus)
