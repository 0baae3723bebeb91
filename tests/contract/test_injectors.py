"""Every injector that the distribution registers keeps the contract."""

from __future__ import annotations

import importlib
import tomllib
from pathlib import Path

from insitu.injectors.cpu import CpuCores
from insitu.injectors.disk import DiskReadRate, DiskWriteRate
from tests.contract.injector_contract import InjectorContract

REGISTERED = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["entry-points"][
    "insitu.injectors"
]


class TestCpuCores(InjectorContract):
    injector = CpuCores()


class TestDiskReadRate(InjectorContract):
    injector = DiskReadRate()


class TestDiskWriteRate(InjectorContract):
    injector = DiskWriteRate()


def test_every_registered_injector_is_under_contract() -> None:
    held = {type(contract.injector) for contract in InjectorContract.__subclasses__()}
    for variable, target in REGISTERED.items():
        module, _, name = target.partition(":")
        injector = getattr(importlib.import_module(module), name)
        assert injector in held
        assert injector.variable == variable
