"""Ordinary least squares against certified values.

Source: NIST Statistical Reference Datasets, https://www.itl.nist.gov/div898/strd/ (Norris, lower difficulty;
Longley, higher difficulty; both in the public domain).
"""

from dataclasses import replace

import pytest

from insitu.orchestrator.estimation.refit import fit_law
from insitu.orchestrator.plan.types import Role, Variable
from tests.standins import LINE_VARIABLES, exact, law_of, line_law, trial_of, xy_trials

NORRIS = """
0.1 0.2  338.8 337.4  118.1 118.2  888.0 884.6  9.2 10.1  228.1 226.5  668.5 666.3  998.5 996.3
449.1 448.6  778.9 777.0  559.2 558.2  0.3 0.4  0.1 0.6  778.1 775.5  668.8 666.9  339.3 338.0
448.9 447.5  10.8 11.6  557.7 556.0  228.3 228.1  998.0 995.8  888.8 887.6  119.6 120.2  0.3 0.3
0.6 0.3  557.6 556.8  339.3 339.1  888.0 887.2  998.5 999.0  778.9 779.0  10.2 11.1  117.6 118.3
228.9 229.2  668.4 669.1  449.2 448.9  0.2 0.5
"""


def test_norris() -> None:
    numbers = [float(number) for number in NORRIS.split()]
    fit = fit_law(line_law(), xy_trials(numbers[1::2], numbers[::2]), variables=LINE_VARIABLES)
    intercept, slope = fit.estimates
    assert fit.n == 36
    assert intercept.base == pytest.approx(-0.262323073774029, rel=1e-10)
    assert slope.base == pytest.approx(1.00211681802045, rel=1e-12)
    assert intercept.reported_std_error == pytest.approx(0.232818234301152, rel=1e-10)
    assert slope.reported_std_error == pytest.approx(0.429796848199937e-03, rel=1e-10)
    assert fit.sigma == pytest.approx(0.884796396144373, rel=1e-10)
    assert fit.r_squared == pytest.approx(0.999993745883712, rel=1e-12)


LONGLEY = {  # name: certified estimate, certified standard deviation
    "CONST": (-3482258.63459582, 890420.383607373),
    "GNPDEFL": (15.0618722713733, 84.9149257747669),
    "GNP": (-0.358191792925910e-01, 0.334910077722432e-01),
    "UNEMP": (-2.02022980381683, 0.488399681651699),
    "ARMED": (-1.03322686717359, 0.214274163161675),
    "POP": (-0.511041056535807e-01, 0.226073200069370),
    "YEAR": (1829.15146461355, 455.478499142212),
}


def test_longley() -> None:
    from statsmodels.datasets import longley

    table = longley.load_pandas().data
    names = [name for name in LONGLEY if name != "CONST"]
    variables = {"y": replace(LINE_VARIABLES["y"], source="TOTEMP")}
    variables |= {name: Variable(name, "", Role.PARAMETER) for name in names}
    text = " + ".join(["of_CONST", *(f"of_{name} * {name}" for name in names)])
    law = law_of("y", text, variables).laws["y"]
    trials = [
        trial_of(
            number + 1,
            tuple(exact(name, float(table[name][number])) for name in names),
            {"TOTEMP": float(table["TOTEMP"][number])},
        )
        for number in range(len(table))
    ]
    fit = fit_law(law, trials, variables=variables)
    for estimate in fit.estimates:
        certified, deviation = LONGLEY[estimate.name.removeprefix("of_")]
        assert estimate.base == pytest.approx(certified, rel=1e-7)
        assert estimate.reported_std_error == pytest.approx(deviation, rel=1e-7)
    assert fit.sigma == pytest.approx(304.854073561965, rel=1e-8)
    assert fit.r_squared == pytest.approx(0.995479004577296, rel=1e-9)
