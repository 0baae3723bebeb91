"""Limits that groups beside our own would escape: on made-up trees of version 2, for lack of a real one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from insitu.injectors.cgroups import PRESSURE, Hierarchies
from insitu.injectors.cgroups import plan_group as plan_inside
from insitu.injectors.confinement import NO_CAPS, Caps, inside, settings_for, steps_for
from insitu.injectors.contract import Ceiling, Node, Ownership, Setting
from insitu.injectors.outer_limits import escaped, with_caps
from tests.injectors import nodes

HANDED = ("cpuset", "cpu", "io", "memory", "pids")
UNLIMITED = {
    "cpu.max": "max 100000",
    "memory.max": "max",
    "memory.high": "max",
    "memory.swap.max": "max",
    "io.max": "",
    "pids.max": "max",
    "cpuset.cpus": "",
    "cpuset.cpus.effective": "0-3",
    "cpuset.mems": "",
    "cpuset.mems.effective": "0",
}
"""What a fresh group says on a machine of four processors."""
HAND_ON = Setting(
    "cpuset", "cgroup.subtree_control", "+cpuset +cpu +io +memory +pids", reads_back="cpuset cpu io memory pids"
)


class Tree:
    """A slice that hands controllers on, with a scope in it, with a leaf in that, where we are."""

    def __init__(self, top: Path) -> None:
        self.slice = top / "some.slice"
        self.scope = self.slice / "run.scope"
        self.leaf = self.scope / "main"
        self.leaf.mkdir(parents=True)
        (self.slice / "cgroup.subtree_control").write_text(" ".join(HANDED) + "\n")
        for group in (self.slice, self.scope, self.leaf):
            self.limit(group, UNLIMITED)

    def limit(self, group: Path, files: dict[str, str]) -> None:
        for name, text in files.items():
            (group / name).write_text(text + "\n" if text else "")

    def hierarchies(self, parent: Path | None = None) -> Hierarchies:
        names = (*HANDED, PRESSURE)
        parents = dict.fromkeys(names, parent or self.slice)
        return Hierarchies(dict.fromkeys(names, 2), parents, {}, dict.fromkeys(names, self.leaf))

    def node(self) -> Node:
        return replace(nodes.node(version=2, cpus=4), hierarchies=self.hierarchies())

    def escaped(self) -> set[tuple[str, str]]:
        return {(setting.file, setting.text) for setting in escaped(self.hierarchies())}


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_what_holds_the_scope_comes_along(tree: Tree) -> None:
    tree.limit(tree.scope, {"cpu.max": "50000 100000", "memory.max": "2147483648", "pids.max": "100"})
    assert escaped(tree.hierarchies()) == (
        Setting("cpu", "cpu.max", "50000 100000"),
        Setting("memory", "memory.max", "2147483648"),
        Setting("pids", "pids.max", "100"),
    )


def test_without_limits_on_the_way_nothing_is_copied(tree: Tree) -> None:
    tree.limit(tree.slice, {"memory.max": "1000000", "cpu.max": "1000 100000", "cpuset.cpus.effective": "0-3"})
    assert escaped(tree.hierarchies()) == (), "the slice's own limits hold everything in it"


def test_the_least_of_several_groups_counts_file_by_file(tree: Tree) -> None:
    tree.limit(tree.scope, {"cpu.max": "30000 20000", "memory.high": "9000000", "memory.max": "max"})
    tree.limit(tree.leaf, {"cpu.max": "160000 100000", "memory.high": "10000000", "memory.swap.max": "0"})
    assert tree.escaped() == {("cpu.max", "30000 20000"), ("memory.high", "9000000"), ("memory.swap.max", "0")}


def test_rates_of_disks_are_the_least_key_by_key(tree: Tree) -> None:
    tree.limit(tree.scope, {"io.max": "254:0 rbps=max wbps=max riops=100 wiops=5\n8:0 rbps=7 wbps=max"})
    tree.limit(tree.leaf, {"io.max": "254:0 rbps=5000000 wbps=max riops=max wiops=9"})
    assert tree.escaped() == {("io.max", "254:0 rbps=5000000 riops=100 wiops=5"), ("io.max", "8:0 rbps=7")}


def test_processors_and_memory_nodes_are_those_in_effect(tree: Tree) -> None:
    tree.limit(tree.scope, {"cpuset.cpus": "0-2", "cpuset.cpus.effective": "0-2"})
    tree.limit(tree.leaf, {"cpuset.cpus": "1-2", "cpuset.cpus.effective": "1-2"})
    held = Setting("cpuset", "cpuset.cpus", "1-2", reads_back_in="cpuset.cpus.effective")
    assert escaped(tree.hierarchies()) == (held,)
    for file in ("cpuset.cpus.effective", "cpuset.mems.effective"):
        (tree.leaf / file).unlink()  # as where the scope does not hand the controller on
    assert tree.escaped() == {("cpuset.cpus", "0-2")}


def test_groups_below_the_own_one_escape_nothing(tree: Tree) -> None:
    tree.limit(tree.leaf, {"memory.max": "1000000"})
    assert escaped(tree.hierarchies(parent=tree.leaf)) == ()
    assert escaped(Hierarchies({}, {}, {})) == ()


AMOUNTS = st.one_of(st.just("max"), st.integers(0, 2**40).map(str))


@given(limits=st.lists(AMOUNTS, max_size=1), cap=AMOUNTS)
def test_a_cap_and_a_limit_of_one_file_are_the_less_of_both(limits: list[str], cap: str) -> None:
    def amount(text: str) -> float:
        return float("inf") if text == "max" else int(text)

    written = with_caps(
        [Setting("memory", "memory.max", text) for text in limits], [Setting("memory", "memory.max", cap)]
    )
    (setting,) = written
    assert amount(setting.text) == min(map(amount, [*limits, cap]))


# --- the run's group, which has them ------------------------------------------------------------------------


def test_the_run_s_group_has_them_and_a_dry_run_shows_them(tree: Tree) -> None:
    tree.limit(
        tree.scope, {"cpu.max": "50000 100000", "io.max": "254:0 rbps=5000000 wbps=max riops=max wiops=max"}
    )
    group = tree.slice / "insitu-0a1b2c3d"
    assert steps_for(tree.node(), NO_CAPS, Ownership("0a1b2c3d")).lines() == (
        f"mkdir {group}",
        f"{group}/cpu.max = 50000 100000",
        f"{group}/io.max = 254:0 rbps=5000000",
        f"{group}/cgroup.subtree_control = +cpuset +cpu +io +memory +pids",
    )


def test_every_group_of_the_run_is_made_in_there(tree: Tree) -> None:
    tree.limit(tree.scope, {"pids.max": "100"})
    node, owner = tree.node(), Ownership("0a1b2c3d")
    steps = steps_for(node, NO_CAPS, owner)
    (group,) = steps.plan.paths
    within = inside(node, NO_CAPS, steps).node.hierarchies
    assert plan_inside(within, "trial", ("cpu", "io", "pids", PRESSURE)).paths == (group / "trial",)
    assert escaped(within) == (), "once is enough"


def test_without_caps_and_limits_there_is_no_such_group(tree: Tree) -> None:
    steps = steps_for(tree.node(), NO_CAPS, Ownership("0a1b2c3d"))
    assert (steps.plan.paths, steps.limits) == ((), ())


def test_a_cap_only_lowers_a_limit(tree: Tree) -> None:
    tree.limit(tree.scope, {"cpu.max": "50000 100000", "memory.max": "409600000", "memory.high": "300000000"})
    lower = settings_for(Caps(0.25, 204800000), tree.node())
    assert lower == (
        Setting("memory", "memory.high", "300000000"),
        Setting("cpu", "cpu.max", "25000 100000"),
        Setting("memory", "memory.max", "204800000"),
        HAND_ON,
    )
    higher = settings_for(Caps(1.5, 1e9), tree.node())
    assert ("cpu.max", "50000 100000") in {(one.file, one.text) for one in higher}
    assert [one.text for one in higher if one.file in ("cpu.max", "memory.max")] == ["50000 100000", "409600000"]


def test_a_cap_that_the_groups_above_hold_anyway_does_not_bind() -> None:
    boxed = replace(
        nodes.node(version=2, cpus=4),
        ceilings={"cpu.cores": Ceiling(0.5, "/x/cpu.max", ""), "memory.limit": Ceiling(1e8, "/x/memory.max", "")},
    )
    assert Caps(1.5, 1e9).binding_on(boxed, 8e9) == NO_CAPS
    assert Caps(0.4, 9e7).binding_on(boxed, 8e9) == Caps(0.4, 9e7)
    slowed = replace(boxed, ceilings={"memory.limit": Ceiling(1e8, "/x/memory.high", "")})
    assert Caps(None, 1e9).binding_on(slowed, 8e9) == Caps(None, 1e9), "memory.high lets a subject beyond it"
