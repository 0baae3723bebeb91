"""Every injector that the distribution registers keeps the contract."""

from __future__ import annotations

import importlib
import tomllib
from pathlib import Path
from typing import ClassVar

from insitu.injectors.contract import Injector
from insitu.injectors.cpu import CpuCores
from insitu.injectors.cpu_set import CpuSet
from insitu.injectors.disk import DiskReadOperations, DiskReadRate, DiskWriteOperations, DiskWriteRate
from insitu.injectors.input_cache import InputInMemory
from insitu.injectors.memory import MemoryHigh, MemoryLimit
from tests.contract.injector_contract import CapContract, InjectorContract

REGISTERED = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["entry-points"][
    "insitu.injectors"
]


class TestCpuCores(CapContract):
    injector = CpuCores()


class TestDiskReadRate(CapContract):
    injector = DiskReadRate()


class TestDiskWriteRate(CapContract):
    injector = DiskWriteRate()


class TestDiskReadOperations(CapContract):
    injector = DiskReadOperations()


class TestDiskWriteOperations(CapContract):
    injector = DiskWriteOperations()


class TestCpuSet(CapContract):
    injector = CpuSet()

    def columns(self) -> tuple[str, ...]:
        return (*super().columns(), "processors_allowed")


class TestMemoryLimit(CapContract):
    injector = MemoryLimit()

    def columns(self) -> tuple[str, ...]:
        return (*super().columns(), "memory_limit_hits")


class TestMemoryHigh(TestMemoryLimit):
    injector: ClassVar[Injector] = MemoryHigh()


class TestInputInMemory(InjectorContract):
    injector = InputInMemory()

    def columns(self) -> tuple[str, ...]:
        return (*super().columns(), "input_in_memory")


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
