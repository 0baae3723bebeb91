"""Every injector that the distribution registers keeps the contract."""

from __future__ import annotations

import importlib
import tomllib
from pathlib import Path

from insitu.injectors.cpu import CpuCores
from insitu.injectors.disk import DiskReadRate, DiskWriteRate
from insitu.injectors.network.delays import NetDelay, NetJitter, NetLoss
from insitu.injectors.network.rates import NetRateIn, NetRateOut
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
