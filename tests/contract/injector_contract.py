"""What every injector promises. The author of an injector subclasses this and sets `injector`.

::

    class TestMyInjector(InjectorContract):
        injector = MyInjector()

`CapContract` goes further, for injectors that cap what the subject uses, and `AddedContract` for those that add
something beside it. Add machines on which it behaves
otherwise with `nodes`, and columns that it reads beyond the built-in ones with `columns`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from insitu.injectors.cgroup_problems import Problem
from insitu.injectors.cgroups import PRESSURE, GroupPlan, Hierarchies
from insitu.injectors.contract import Achieved, Device, Injector, Network, Node, Treatment
from insitu.injectors.demand import Demand
from insitu.injectors.lifecycle import Verdict, check, verdict
from insitu.injectors.node import survey
from insitu.injectors.options import Option, OptionKind, OptionValue, Schedule, Window
from insitu.injectors.quantities import spelled
from insitu.injectors.registry import injectors
from insitu.injectors.treatment import Intervention
from insitu.orchestrator.units import dimension_of, parse_quantity

_CONTROLLERS = ("cpu", "cpuacct", "cpuset", "io", "memory", "pids", PRESSURE)
_DISK = Device("8:0", "sda")


_ABLE = Network("", "")


def _node(version: int, usable: tuple[str, ...], device: Device | None, network: Network = _ABLE) -> Node:
    return Node(
        cpus=4,
        privileged=True,
        hierarchies=Hierarchies(
            version=dict.fromkeys(_CONTROLLERS, version),
            parents={name: Path(f"/groups/{name}") for name in usable},
            problems={
                name: Problem(f"no permission for {name}", "run as root")
                for name in _CONTROLLERS
                if name not in usable
            },
        ),
        device=device,
        device_problem="" if device else "no disk of its own",
        network=network,
    )


NODES = {
    "version 1": _node(1, _CONTROLLERS, _DISK),
    "version 2": _node(2, _CONTROLLERS, _DISK),
    "version 1, no disk": _node(1, _CONTROLLERS, None),
    "version 1, no groups": _node(1, (), _DISK),
    "version 1, no netem": _node(1, _CONTROLLERS, _DISK, Network("", "", netem_problem="no netem")),
    "version 2, no delay at all": _node(
        2, _CONTROLLERS, _DISK, Network("", "", "no netem", "no /dev/net/tun", "modprobe tun")
    ),
    "nothing": Node(1, False, Hierarchies({}, {}, {}), None, "no disk of its own"),
}

COLUMNS = (
    "cpu_s",
    "periods",
    "throttled_periods",
    "throttled_s",
    "cpu_stall_s",
    "io_stall_s",
    "memory_stall_s",
    "memory_bytes",
    "read_bytes",
    "write_bytes",
    "read_ops",
    "write_ops",
    "device_read_bytes",
    "device_write_bytes",
    "device_read_ops",
    "device_write_ops",
    "device_flushes",
    "device_busy_s",
    "memory_peak_bytes",
    "net_out_bytes",
    "net_out_held",
    "net_out_waiting_bytes",
    "net_in_bytes",
    "net_in_held",
    "net_in_waiting_bytes",
    "net_out_probes",
    "net_out_transit_s",
    "net_out_passed",
    "net_out_lost",
    "net_in_probes",
    "net_in_transit_s",
    "net_in_passed",
    "net_in_lost",
)
"""What a trial's samples hold on a node that can measure everything."""

GAUGES = ("memory_bytes", "memory_peak_bytes", "processors_allowed")
"""Columns that say how much there is, and not how much there has been: 0 for a subject that did nothing."""

STEP_S = 0.025


class InjectorContract:
    injector: ClassVar[Injector]

    def nodes(self) -> dict[str, Node]:
        """Machines by name, this one included."""
        return {**NODES, "here": survey(Path(__file__).parent)}

    def columns(self) -> tuple[str, ...]:
        """Names of the samples' columns, without ``time_s``."""
        return COLUMNS

    def settable(self) -> Iterator[tuple[Node, float]]:
        """Machines that can set the variable, with levels that they can set."""
        for node in self.nodes().values():
            capability = self.injector.capability(node)
            if capability.settable:
                low = capability.low or capability.high / 100
                levels = capability.levels or (capability.low, *np.geomspace(low, capability.high, 7))
                for level in levels:
                    stepped = round(level / capability.step) * capability.step if capability.step else level
                    yield node, float(min(max(stepped, capability.low), capability.high))

    def test_it_is_registered_under_its_variable(self) -> None:
        assert type(injectors()[self.injector.variable]) is type(self.injector)

    def test_its_unit_is_one_that_levels_can_be_written_in(self) -> None:
        unit = self.injector.unit
        assert dimension_of(unit) or unit in ("", "fraction")
        one, two = (parse_quantity(f"{number} {unit}".strip(), unit) for number in (1, 2))
        assert two == pytest.approx(2 * one)
        assert parse_quantity(spelled(two, unit), unit) == pytest.approx(two)

    def test_its_tolerance_is_a_share(self) -> None:
        assert 0 < self.injector.tolerance < 0.5

    def test_every_machine_gets_an_answer_that_says_why_not_and_what_to_do(self) -> None:
        for node in self.nodes().values():
            capability = self.injector.capability(node)
            assert capability == self.injector.capability(node)
            assert capability.variable == self.injector.variable
            assert capability.unit == self.injector.unit
            if not capability.settable or capability.weaker:
                assert capability.reason
                assert capability.remedy
            if capability.settable:
                assert 0 <= capability.low <= capability.high < math.inf
                assert capability.low > 0 or self.injector.rest in (0, None)
                assert all(capability.low <= level <= capability.high for level in capability.levels)

    def test_its_options_are_told_apart_and_explained(self) -> None:
        names = [option.name for option in self.injector.options]
        assert len(set(names)) == len(names)
        for option in self.injector.options:
            assert option.summary
            assert bool(option.words) == (option.kind is OptionKind.WORD)
            assert bool(option.highest) == (option.kind is OptionKind.COUNT)

    def test_without_options_it_is_what_it_was_and_an_unknown_one_is_refused(self) -> None:
        plain = self.injector.configured(())
        for node, level in self.settable():
            assert plain.treatment(level, node) == self.injector.treatment(level, node)
        with pytest.raises(ValueError, match="option"):
            self.injector.configured((("no such option", 1),))

    def test_its_demand_is_nothing_at_rest_and_no_less_at_a_higher_level(self) -> None:
        if self.injector.rest is not None:
            assert self.injector.demand(self.injector.rest) == Demand()
        for node in self.nodes().values():
            capability = self.injector.capability(node)
            if capability.settable:
                low, high = (self.injector.demand(level) for level in (capability.low, capability.high))
                assert low.cores <= high.cores
                assert low.memory_bytes <= high.memory_bytes
                assert low.disk_bytes_per_s <= high.disk_bytes_per_s

    def test_its_preparation_has_an_end(self) -> None:
        for _, level in self.settable():
            assert 0 <= self.injector.preparation_s(level) < math.inf

    def test_some_machine_can_set_it(self) -> None:
        assert any(True for _ in self.settable())

    def test_a_treatment_is_pure_and_says_how(self) -> None:
        for node, level in self.settable():
            before = repr(node)
            treatment = self.injector.treatment(level, node)
            assert treatment == self.injector.treatment(level, node)
            assert repr(node) == before
            assert treatment != Treatment() or level == self.injector.rest
            if treatment.stop_and_go is not None:
                assert 0 < treatment.stop_and_go.share <= 1
                assert treatment.stop_and_go.cpus >= 1
                assert treatment.stop_and_go.period_s > 0

    def test_settings_are_in_the_trial_s_own_group_and_read_back_as_one_line(self) -> None:
        for node, level in self.settable():
            for setting in self.injector.treatment(level, node).settings:
                assert setting.controller in self.injector.controllers
                assert node.hierarchies.usable(setting.controller)
                directory = node.hierarchies.parents[setting.controller] / "group"
                path = GroupPlan({setting.controller: directory}).directories[setting.controller]
                assert (path / setting.file).parent == directory
                assert "\n" not in setting.text
                assert "\n" not in setting.reads_back

    def test_different_levels_are_brought_about_differently(self) -> None:
        for node in self.nodes().values():
            capability = self.injector.capability(node)
            if capability.settable and capability.high > 2 * capability.low:
                ends = (capability.low, capability.high)
                low, high = (self.injector.treatment(level, node) for level in ends)
                assert low != high

    def test_the_ends_of_its_range_pass_the_check(self) -> None:
        for node in self.nodes().values():
            capability = self.injector.capability(node)
            if capability.settable:
                for level in (capability.low, capability.high):
                    assert check(Intervention(self.injector, level), node) == capability

    def samples(self, length: int, value: float = 0.0) -> dict[str, np.ndarray]:
        """Samples in which nothing happens."""
        constant = {name: np.full(length, 0.0 if name in GAUGES else value) for name in self.columns()}
        return {"time_s": np.arange(length) * STEP_S, **constant}

    def achieved(self, samples: dict[str, np.ndarray]) -> Iterator[tuple[float, Achieved]]:
        for node, level in self.settable():
            for asked in (level, *(() if self.injector.rest is None else (self.injector.rest,))):
                before = {name: column.copy() for name, column in samples.items()}
                yield asked, self.injector.achieved(asked, samples, node)
                assert all((before[name] == column).all() for name, column in samples.items())

    def test_what_is_achieved_is_within_its_bounds_whatever_the_counters_do(self) -> None:
        generator = np.random.default_rng(5)
        for _ in range(20):
            length = int(generator.integers(2, 60))
            samples = self.samples(length)
            for name in self.columns():
                steps = generator.exponential(10.0 ** generator.integers(-4, 7), length)
                samples[name] = np.cumsum(steps * (generator.random(length) < 0.5))
            for _, achieved in self.achieved(samples):
                assert 0 <= achieved.bound_share <= 1 + 1e-9
                assert achieved.uncertainty >= 0
                assert math.isfinite(achieved.uncertainty)
                assert achieved.level is None or (achieved.level >= 0 and math.isfinite(achieved.level))


class CapContract(InjectorContract):
    """Of an injector that caps what the subject uses: what is not used is slack."""

    def test_its_rest_is_no_cap(self) -> None:
        assert self.injector.rest == math.inf

    @pytest.mark.parametrize("length", [0, 1, 2, 3, 80])
    @pytest.mark.parametrize("value", [0.0, 12345.0])
    def test_a_subject_that_did_nothing_is_slack_and_no_exception(self, length: int, value: float) -> None:
        with np.errstate(all="raise"):
            for level, achieved in self.achieved(self.samples(length, value)):
                assert achieved.level is None or achieved.level == 0
                assert achieved.bound_share == 0
                assert not achieved.starved
                expected = Verdict.UNSET if math.isinf(level) else Verdict.SLACK
                assert verdict(level, achieved, self.injector) is expected

    def test_samples_of_a_node_that_measures_only_processor_time(self) -> None:
        time_s = np.arange(80) * STEP_S
        for level, achieved in self.achieved({"time_s": time_s, "cpu_s": 0 * time_s}):
            assert verdict(level, achieved, self.injector) in (Verdict.UNSET, Verdict.SLACK)


class AddedContract(InjectorContract):
    """Of an injector that adds something beside the subject: its level is what it asks for."""

    def columns(self) -> tuple[str, ...]:
        return (*COLUMNS, *(f"{self.injector.variable}:{name}" for name in ("open_s", "demand", "cpu_s")))

    def value_of(self, option: Option) -> OptionValue:
        """A value that an option may have."""
        match option.kind:
            case OptionKind.WORD:
                return option.words[-1]
            case OptionKind.COUNT:
                return option.highest
            case OptionKind.ADDRESS:
                return "localhost:7"
            case OptionKind.SCHEDULE:
                return Schedule((Window(0.5, 1.0), Window(1.5, 1.75)))

    def asked_for(self, level: float, open_s: float, length: int = 81) -> dict[str, np.ndarray]:
        """Samples of a load that asks for exactly its level, for the first `open_s` seconds."""
        samples = self.samples(length)
        samples[f"{self.injector.variable}:open_s"] = np.minimum(samples["time_s"], open_s)
        samples[f"{self.injector.variable}:demand"] = level * np.minimum(samples["time_s"], open_s)
        return samples

    def test_its_rest_is_nothing_added(self) -> None:
        assert self.injector.rest == 0
        for node in self.nodes().values():
            assert self.injector.treatment(0.0, node) == Treatment()
            assert (
                verdict(0.0, self.injector.achieved(0.0, self.samples(80), node), self.injector) is Verdict.UNSET
            )

    def test_what_was_asked_for_is_held(self) -> None:
        for node, level in self.settable():
            achieved = self.injector.achieved(level, self.asked_for(level, 10.0), node)
            assert achieved.level == pytest.approx(level)
            assert achieved.bound_share == 1
            assert not achieved.starved
            assert verdict(level, achieved, self.injector) is Verdict.HELD

    def test_what_ended_half_way_is_missed(self) -> None:
        for node, level in self.settable():
            samples = self.asked_for(level, 10.0)
            demand = f"{self.injector.variable}:demand"
            samples[demand] = np.minimum(samples[demand], 0.5 * samples[demand][-1])
            assert verdict(level, self.injector.achieved(level, samples, node), self.injector) is Verdict.MISSED

    def test_what_was_never_measured_is_missed(self) -> None:
        for node, level in self.settable():
            achieved = self.injector.achieved(level, {"time_s": np.arange(80) * STEP_S}, node)
            assert verdict(level, achieved, self.injector) is Verdict.MISSED

    def test_windows_are_a_share_of_the_trial_and_none_of_them_is_slack(self) -> None:
        windows = Schedule((Window(0.0, 0.5),))
        injector = self.injector.configured((("windows", windows),))
        for node, level in self.settable():
            achieved = injector.achieved(level, self.asked_for(level, 0.5), node)
            assert achieved.level == pytest.approx(level)
            assert achieved.bound_share == pytest.approx(0.25)
            assert verdict(level, achieved, injector) is Verdict.HELD
            unopened = injector.achieved(level, self.asked_for(level, 0.0), node)
            assert unopened.level == 0
            assert verdict(level, unopened, injector) is Verdict.SLACK

    @pytest.mark.parametrize("open_s", [0.001, 0.02, 0.1, 0.5])
    def test_what_was_not_there_while_its_window_was_open_is_not_held(self, open_s: float) -> None:
        injector = self.injector.configured((("windows", Schedule((Window(0.0, 0.5),))),))
        demand = f"{self.injector.variable}:demand"
        for node, level in self.settable():
            samples = self.asked_for(level, open_s)
            samples[demand] = 0 * samples[demand]
            achieved = injector.achieved(level, samples, node)
            assert achieved.level == 0
            briefly = open_s < 0.1 * samples["time_s"][-1]
            allowed = (Verdict.SLACK, Verdict.MISSED) if briefly else (Verdict.MISSED,)
            assert verdict(level, achieved, injector) in allowed

    def test_every_option_makes_a_difference_and_none_to_its_rest(self) -> None:
        for option in self.injector.options:
            injector = self.injector.configured(((option.name, self.value_of(option)),))
            assert injector.variable == self.injector.variable
            changed = [
                injector.treatment(level, node) != self.injector.treatment(level, node)
                for node, level in self.settable()
            ]
            assert any(changed), option.name
            for node in self.nodes().values():
                assert injector.treatment(0.0, node) == Treatment()
