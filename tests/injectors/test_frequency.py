"""``cpu.frequency`` on a made-up /sys tree: most virtual machines have none."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest

from insitu.injectors.contract import HostValue, Node
from insitu.injectors.cpufreq import policies
from insitu.injectors.errors import NotSettable
from insitu.injectors.frequency import CpuFrequency
from insitu.injectors.lifecycle import Verdict, check, verdict
from insitu.injectors.treatment import Intervention
from tests.injectors.nodes import bare_node, node

FREQUENCY = CpuFrequency()


def tree(folder: Path, *, steps: str = "") -> Path:
    """Two policies of two processors each, 0.8 to 3 GHz, of which the governor may use 1.2 to 2.5."""
    for number in (0, 2):
        policy = folder / f"policy{number}"
        policy.mkdir(parents=True)
        texts = {
            "affected_cpus": f"{number} {number + 1}",
            "cpuinfo_min_freq": "800000",
            "cpuinfo_max_freq": "3000000",
            "scaling_min_freq": "1200000",
            "scaling_max_freq": "2500000",
            "scaling_cur_freq": "2400000",
        }
        if steps:
            texts["scaling_available_frequencies"] = steps
        for name, text in texts.items():
            (policy / name).write_text(text + "\n")
    return folder


def machine(folder: Path, *, steps: str = "", processors: tuple[int, ...] = (0, 1, 2, 3)) -> Node:
    return dataclasses.replace(node(cpus=4), frequencies=policies(processors, tree(folder, steps=steps)))


def test_the_policies_of_the_processors_that_may_be_used(tmp_path: Path) -> None:
    both = machine(tmp_path / "both").frequencies
    assert [Path(one.path).name for one in both] == ["policy0", "policy2"]
    assert (both[0].low_hz, both[0].high_hz, both[0].least_hz, both[0].most_hz) == (0.8e9, 3e9, 1.2e9, 2.5e9)
    (one,) = machine(tmp_path / "one", processors=(3,)).frequencies
    assert Path(one.path).name == "policy2"
    assert policies((0,), tmp_path / "nothing") == ()


def test_a_policy_without_processors_is_left_out(tmp_path: Path) -> None:
    root = tree(tmp_path)
    (root / "policy0/affected_cpus").write_text("\n")
    (root / "policy2/scaling_min_freq").unlink()
    assert policies((0, 1, 2, 3), root) == ()


def test_what_can_be_set(tmp_path: Path) -> None:
    capability = FREQUENCY.capability(machine(tmp_path / "a"))
    assert (capability.mechanism, capability.low, capability.high) == ("cpufreq", 0.8e9, 3e9)
    assert capability.levels == ()
    stepped = machine(tmp_path / "b", steps="3000000 2000000 800000")
    assert FREQUENCY.capability(stepped).levels == (0.8e9, 2e9, 3e9)
    with pytest.raises(NotSettable, match="not one of the levels there are: 800 MHz, 2 GHz, 3 GHz"):
        check(Intervention(FREQUENCY, 1e9), stepped)


def test_most_machines_cannot_and_say_why(tmp_path: Path) -> None:
    virtual = FREQUENCY.capability(node())
    assert not virtual.settable
    assert "no cpufreq policy" in virtual.reason
    frequencies = machine(tmp_path).frequencies
    ordinary = FREQUENCY.capability(dataclasses.replace(bare_node(), frequencies=frequencies))
    assert (ordinary.settable, ordinary.remedy) == (False, "run as root")


@pytest.mark.parametrize(
    ("level", "order"),
    [(1e9, ("min", "max")), (2e9, ("max", "min")), (2.8e9, ("max", "min"))],
)
def test_both_bounds_in_an_order_in_which_they_never_cross(
    tmp_path: Path, level: float, order: tuple[str, str]
) -> None:
    here = machine(tmp_path)
    values = FREQUENCY.treatment(level, here).host_values
    expected = [
        HostValue(f"{policy.path}/scaling_{bound}_freq", f"{level / 1e3:.0f}")
        for policy in here.frequencies
        for bound in order
    ]
    assert list(values) == expected
    for steps in (values, tuple(reversed(values))):
        bounds = {"scaling_min_freq": 1.2e6, "scaling_max_freq": 2.5e6}
        prior = dict(bounds)
        undoing = steps is not values
        if undoing:
            bounds = dict.fromkeys(bounds, level / 1e3)
        for value in steps[:2]:
            name = Path(value.path).name
            bounds[name] = prior[name] if undoing else float(value.text)
            assert bounds["scaling_min_freq"] <= bounds["scaling_max_freq"]


@pytest.mark.parametrize(
    ("seen", "expected"), [(2e9, Verdict.HELD), (1.95e9, Verdict.HELD), (1.9e9, Verdict.MISSED)]
)
def test_what_the_processors_did_is_compared(tmp_path: Path, seen: float, expected: Verdict) -> None:
    here = machine(tmp_path)
    columns = [probe.column for probe in FREQUENCY.probes(here)]
    assert [probe.path for probe in FREQUENCY.probes(here)] == [
        f"{one.path}/scaling_cur_freq" for one in here.frequencies
    ]
    assert all(probe.scale == 1e3 for probe in FREQUENCY.probes(here))
    idle = np.array([0.8e9, *[seen] * 8, 0.8e9])  # before its start, and at its end
    samples = {"time_s": np.arange(10.0), **dict.fromkeys(columns, idle)}
    achieved = FREQUENCY.achieved(2e9, samples, here)
    assert achieved.level == seen
    assert verdict(2e9, achieved, FREQUENCY) is expected
    assert verdict(math.inf, FREQUENCY.achieved(math.inf, samples, here), FREQUENCY) is Verdict.UNSET


def test_a_node_that_does_not_count_says_so() -> None:
    assert FREQUENCY.achieved(2e9, {"time_s": np.arange(3.0)}, node()).note == "not measured on this node"
