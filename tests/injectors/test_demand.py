"""What levels take of a node."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from insitu.injectors.contract import Achieved, Capability, Injector, Node, Treatment
from insitu.injectors.cpu import CpuCores
from insitu.injectors.demand import Demand
from insitu.injectors.disk import DiskReadRate
from insitu.injectors.treatment import Intervention, demand_of_trial

amounts = st.floats(0, 1e12)
demands = st.builds(Demand, amounts, amounts, amounts, st.integers(0, 100))


class Hog(Injector):
    """Takes as many cores as its level, and as many MB."""

    variable = "anomaly.hog"
    unit = "core"
    tolerance = 0.1
    rest = 0.0

    def capability(self, node: Node) -> Capability:
        return Capability(self.variable, self.unit, "hog", 0.0, 100.0)

    def treatment(self, level: float, node: Node) -> Treatment:
        return Treatment()

    def achieved(self, level: float, samples: object, node: Node) -> Achieved:
        return Achieved(level, 1.0, 0.0)

    def demand(self, level: float) -> Demand:
        assert level != self.rest, "asked at rest"
        return Demand(cores=level, memory_bytes=level * 1e6)


@given(demands, demands, demands)
def test_sums_and_maxima(one: Demand, two: Demand, three: Demand) -> None:
    assert one + Demand() == one == one.maximum(Demand()) == one.maximum(one)
    assert one + two == two + one
    assert one.maximum(two) == two.maximum(one)
    assert one.maximum(two).maximum(three) == one.maximum(two.maximum(three))
    both = one + two
    assert both.maximum(one) == both


def test_of_one_intervention() -> None:
    assert Intervention(Hog(), 3.0).demand == Demand(cores=3.0, memory_bytes=3e6)
    assert Intervention(Hog(), 0.0).demand == Demand()
    assert Intervention(CpuCores(), 0.5).demand == Demand(cores=0.5)
    assert Intervention(CpuCores(), float("inf")).demand == Demand()
    assert Intervention(DiskReadRate(), 1e6).demand == Demand(), "a cap on the subject takes nothing"


def test_of_a_trial() -> None:
    trial = [Intervention(Hog(), 2.0), Intervention(CpuCores(), 0.5), Intervention(DiskReadRate(), 1e6)]
    assert demand_of_trial(trial) == Demand(cores=2.5, memory_bytes=2e6)
    assert demand_of_trial([]) == Demand()
