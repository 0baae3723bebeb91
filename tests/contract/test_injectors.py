"""Every injector that the distribution registers keeps the contract."""

from __future__ import annotations

import importlib
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from insitu.injectors.anomalies import variables
from insitu.injectors.contract import Injector, Node
from insitu.injectors.cpu import CpuCores
from insitu.injectors.cpu_set import CpuSet
from insitu.injectors.cpufreq import FrequencyPolicy
from insitu.injectors.disk import DiskReadOperations, DiskReadRate, DiskWriteOperations, DiskWriteRate
from insitu.injectors.frequency import CpuFrequency
from insitu.injectors.input_cache import InputInMemory
from insitu.injectors.memory import MemoryHigh, MemoryLimit
from insitu.injectors.network.delays import NetDelay, NetJitter, NetLoss
from insitu.injectors.network.rates import NetRateIn, NetRateOut
from tests.contract.injector_contract import NODES, AddedContract, CapContract, InjectorContract

REGISTERED = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["entry-points"][
    "insitu.injectors"
]


class TestCpuCores(CapContract):
    injector = CpuCores()


class TestDiskReadRate(CapContract):
    injector = DiskReadRate()


class TestDiskWriteRate(CapContract):
    injector = DiskWriteRate()


class TestCpuLoad(AddedContract):
    injector = variables.CpuLoad()


class TestCpuDuty(AddedContract):
    injector = variables.CpuDuty()


class TestCpuRate(AddedContract):
    injector = variables.CpuRate()


class TestDiskLoad(AddedContract):
    injector = variables.DiskLoad()


class TestDiskDuty(AddedContract):
    injector = variables.DiskDuty()


class TestDiskRate(AddedContract):
    injector = variables.DiskRate()


class TestNetLoad(AddedContract):
    injector = variables.NetLoad()


class TestNetDuty(AddedContract):
    injector = variables.NetDuty()


class TestNetRate(AddedContract):
    injector = variables.NetRate()


class TestMemoryBandwidthLoad(AddedContract):
    injector = variables.MemoryBandwidthLoad()


class TestMemoryBandwidthDuty(AddedContract):
    injector = variables.MemoryBandwidthDuty()


class TestMemoryBandwidthRate(AddedContract):
    injector = variables.MemoryBandwidthRate()


class TestCacheLoad(AddedContract):
    injector = variables.CacheLoad()


class TestCacheDuty(AddedContract):
    injector = variables.CacheDuty()


class TestMemoryLoad(AddedContract):
    injector = variables.MemoryLoad()


class TestDiskReadOperations(CapContract):
    injector = DiskReadOperations()


class TestDiskWriteOperations(CapContract):
    injector = DiskWriteOperations()


class TestCpuSet(CapContract):
    injector = CpuSet()

    def columns(self) -> tuple[str, ...]:
        return (*super().columns(), "processors_allowed")


class TestCpuFrequency(InjectorContract):
    injector = CpuFrequency()

    def nodes(self) -> dict[str, Node]:
        fast = FrequencyPolicy("/sys/policy0", 1e9, 3e9, 1e9, 2e9)
        stepped = FrequencyPolicy("/sys/policy1", 1e9, 3e9, 1e9, 3e9, (1e9, 2e9, 3e9))
        plain = NODES["version 1"]
        made_up = {
            "free": replace(plain, frequencies=(fast, fast)),
            "stepped": replace(plain, frequencies=(stepped,)),
        }
        return super().nodes() | made_up

    def columns(self) -> tuple[str, ...]:
        return (*super().columns(), "frequency_hz_0", "frequency_hz_1")


class TestMemoryLimit(CapContract):
    injector: ClassVar[Injector] = MemoryLimit()

    def columns(self) -> tuple[str, ...]:
        return (*super().columns(), "memory_limit_hits")


class TestMemoryHigh(TestMemoryLimit):
    injector = MemoryHigh()


class TestInputInMemory(InjectorContract):
    injector = InputInMemory()

    def columns(self) -> tuple[str, ...]:
        return (*super().columns(), "input_in_memory")


class TestNetDelay(InjectorContract):
    injector = NetDelay()


class TestNetJitter(InjectorContract):
    injector = NetJitter()


class TestNetLoss(InjectorContract):
    injector = NetLoss()


class TestNetRateIn(CapContract):
    injector = NetRateIn()


class TestNetRateOut(CapContract):
    injector = NetRateOut()


def _all_below(contract: type[InjectorContract]) -> list[type[InjectorContract]]:
    below = [deeper for one in contract.__subclasses__() for deeper in (one, *_all_below(one))]
    return [one for one in below if hasattr(one, "injector")]


def test_every_registered_injector_is_under_contract() -> None:
    held = {type(contract.injector) for contract in _all_below(InjectorContract)}
    for variable, target in REGISTERED.items():
        module, _, name = target.partition(":")
        injector = getattr(importlib.import_module(module), name)
        assert injector in held
        assert injector.variable == variable
