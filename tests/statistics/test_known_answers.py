"""Fits against certified values and against what others print.

Source: NIST Statistical Reference Datasets, https://www.itl.nist.gov/div898/strd/ (in the public domain). Linear:
Norris, lower difficulty; Longley, higher. Curved: Misra1a, lower; MGH09 and BoxBOD, higher; searched for
without the starts that come with them.
"""

from dataclasses import replace

import pytest

from insitu.orchestrator.estimation.fitting.refit import fit_law
from insitu.orchestrator.plan.law_kinds import Method
from insitu.orchestrator.plan.types import Role, Variable
from tests.estimation.made import made, trials_of
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


MISRA1A = """
10.07 77.6  14.73 114.9  17.94 141.1  23.93 190.8  29.61 239.9  35.18 289.0  40.02 332.8
44.82 378.4  50.76 434.8  55.05 477.3  61.01 536.8  66.40 593.1  75.47 689.1  81.78 760.0
"""
MGH09 = """
0.1957 4  0.1947 2  0.1735 1  0.16 0.5  0.0844 0.25  0.0627 0.167
0.0456 0.125  0.0342 0.1  0.0323 0.0833  0.0235 0.0714  0.0246 0.0625
"""
BOXBOD = "109 1  149 2  149 3  191 5  213 7  224 10"


@pytest.mark.parametrize(
    ("text", "data", "certified", "deviations", "sigma"),
    [
        pytest.param(
            "b1 * (1 - exp(-b2 * x))",
            MISRA1A,
            [2.3894212918e2, 5.5015643181e-4],
            [2.7070075241e0, 7.2668688436e-6],
            1.0187876330e-1,
            id="Misra1a",
        ),
        pytest.param(
            "b1 * (x^2 + x * b2) / (x^2 + x * b3 + b4)",
            MGH09,
            [1.9280693458e-1, 1.9128232873e-1, 1.2305650693e-1, 1.3606233068e-1],
            [1.1435312227e-2, 1.9633220911e-1, 8.0842031232e-2, 9.0025542308e-2],
            6.6279236551e-3,
            id="MGH09",
        ),
        pytest.param(
            "b1 * (1 - exp(-b2 * x))",
            BOXBOD,
            [2.1380940889e2, 5.4723748542e-1],
            [1.2354515176e1, 1.0455993237e-1],
            1.7088072423e1,
            id="BoxBOD",
        ),
    ],
)
def test_curved_laws(text: str, data: str, certified: list[float], deviations: list[float], sigma: float) -> None:
    numbers = [float(number) for number in data.split()]
    law = made(text)
    fit = fit_law(law.law, trials_of({"x": numbers[1::2]}, numbers[::2]), variables=law.variables)
    assert fit.values == pytest.approx(certified, rel=1e-6)
    assert [one.reported_std_error for one in fit.estimates] == pytest.approx(deviations, rel=1e-5)
    assert fit.sigma == pytest.approx(sigma, rel=1e-9)


def test_huber_on_the_stack_loss_data() -> None:
    """As statsmodels' documentation prints them for Huber's weights; Brownlee's data."""
    from statsmodels.datasets import stackloss

    table = stackloss.load_pandas().data
    names = ["AIRFLOW", "WATERTEMP", "ACIDCONC"]
    law = made("a * AIRFLOW + w * WATERTEMP + s * ACIDCONC + c", names, method=Method.ROBUST)
    trials = trials_of({name: table[name].to_numpy() for name in names}, table["STACKLOSS"].to_numpy())
    fit = fit_law(law.law, trials, variables=law.variables)
    assert fit.values == pytest.approx([0.82938433, 0.92606597, -0.12784672, -41.02649835], rel=1e-5)
    assert [one.reported_std_error for one in fit.estimates] == pytest.approx(
        [0.11100521, 0.30293016, 0.12864961, 9.79189854], rel=1e-4
    )
