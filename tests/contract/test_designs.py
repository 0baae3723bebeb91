"""Every design that the distribution registers keeps the contract."""

from __future__ import annotations

import importlib
import tomllib
from pathlib import Path

from insitu.orchestrator.design.kinds.factorial import Factorial
from insitu.orchestrator.design.kinds.fractions import Fractional
from insitu.orchestrator.design.kinds.latin import LatinHypercube
from insitu.orchestrator.design.kinds.optimal import COptimal, DOptimal, IOptimal
from tests.contract.design_contract import DesignContract

REGISTERED = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["entry-points"][
    "insitu.designs"
]


class TestFactorial(DesignContract):
    design = Factorial()


class TestFractional(DesignContract):
    design = Fractional()


class TestDOptimal(DesignContract):
    design = DOptimal()


class TestIOptimal(DesignContract):
    design = IOptimal()


class TestCOptimal(DesignContract):
    design = COptimal()


class TestLatinHypercube(DesignContract):
    design = LatinHypercube()


def test_every_registered_design_is_under_contract() -> None:
    held = {type(contract.design) for contract in DesignContract.__subclasses__()}
    for target in REGISTERED.values():
        module, _, name = target.partition(":")
        assert getattr(importlib.import_module(module), name) in held
