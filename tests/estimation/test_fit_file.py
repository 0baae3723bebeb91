import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from insitu.orchestrator.errors import CannotExecute, InputError
from insitu.orchestrator.estimation.checks.graph_findings import FailedIndependence, GraphCheck, Untested
from insitu.orchestrator.estimation.fit import FittedLaws, NotFitted
from insitu.orchestrator.estimation.fitted_file import (
    as_document,
    parse_fitted_laws,
    read_fits,
    read_fitted_laws,
    write_fits,
    write_fitted_laws,
)
from insitu.orchestrator.estimation.fitting.refit import fit_law
from insitu.orchestrator.estimation.questions.queries import whatif
from insitu.orchestrator.plan.law_kinds import Link, Method, Noise
from tests.standins import LINE_VARIABLES, SORT_LAW, SORT_VARIABLES, line_law, sort_trials, xy_trials

WHOLE = {"format": "insitu-fit", "version": 2, "fits": [], "not_fitted": [], "graph": None}


def test_a_fit_survives_its_file_and_answers_the_same(tmp_path: Path) -> None:
    path = tmp_path / "fitted.json"
    fit = fit_law(SORT_LAW, sort_trials(np.random.default_rng(3)), variables=SORT_VARIABLES)
    bent = fit_law(
        SORT_LAW,
        sort_trials(np.random.default_rng(3), extra=lambda v: 0.4 / v["cpu_cores"]),
        variables=SORT_VARIABLES,
    )
    assert bent.missing_term is not None
    for each in (fit, bent):
        write_fits(path, [each])
        assert read_fits(path) == {"runtime": each}
    question = {"cpu_cores": 0.4}
    assert whatif(read_fits(path)["runtime"], SORT_LAW, question) == whatif(bent, SORT_LAW, question)
    assert [file.name for file in tmp_path.iterdir()] == ["fitted.json"]


def test_non_finite_numbers_are_text(tmp_path: Path) -> None:
    path = tmp_path / "fitted.json"
    write_fits(path, [fit_law(line_law(), xy_trials([1, 1, 2, 3], [2.0] * 4), variables=LINE_VARIABLES)])

    def reject(token: str) -> float:
        raise AssertionError(f"{token} is not JSON")

    assert json.loads(path.read_text(), parse_constant=reject)["fits"][0]["r_squared"] == "nan"
    assert np.isnan(read_fits(path)["y"].r_squared)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 99}, "newer insitu"),
        ({"format": "other"}, "damaged"),
        ({"fits": [{}]}, "damaged"),
        ({"fits": 3}, "damaged"),
        ({"version": "x"}, "damaged"),
    ],
)
def test_damage_and_newer_files_are_refused(tmp_path: Path, change: dict[str, object], message: str) -> None:
    path = tmp_path / "fitted.json"
    path.write_text(json.dumps({"format": "insitu-fit", "version": 1, "fits": []} | change))
    with pytest.raises(InputError, match=message):
        read_fits(path)


def test_a_wrong_shape_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "fitted.json"
    fit = fit_law(line_law(), xy_trials([1, 2, 3], [1.0, 2.1, 2.9]), variables=LINE_VARIABLES)
    document = as_document(fit) | {"covariance": [[1.0]]}
    path.write_text(json.dumps(WHOLE | {"fits": [document]}))
    with pytest.raises(InputError, match="wrong shape"):
        read_fits(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"stranger": 1}, "stranger"),
        ({"covariance": [[1.0, 2.0], [2.0, "nan"]]}, "not finite"),
        ({"covariance": [[1.0, 0.9], [0.1, 1.0]]}, "no covariance"),
        ({"covariance": [[-1.0, 0.0], [0.0, 1.0]]}, "no covariance"),
        ({"confidence": 1.5}, "not between 0 and 1"),
        ({"quantile": 0.0}, "not between 0 and 1"),
        ({"df": 0}, "not positive"),
        ({"sigma": -1.0}, "not positive"),
        ({"sigma": "nan"}, "not positive"),
        ({"noise": "loud"}, "noise"),
        ({"method": "__import__('os')"}, "method"),
        ({"n": 3.5}, "n"),
        ({"estimates": []}, "wrong shape"),
        ({"covariance": [[1.0, 1e6], [1e6, 1.0]]}, "correlations that cannot be"),
        ({"covariance": [[0.0, 0.5], [0.5, 1.0]]}, "no covariance"),
        ({"covariance": [[1e300, 0.0], [0.0, 1e300]]}, "too large or too small"),
        ({"covariance": [[1e-300, 0.0], [0.0, 1.0]]}, "too large or too small"),
        ({"sigma": 1e308}, "too large or too small"),
        ({"findings": [{"check": "drift", "notable": True, "sentence": "x", "code": "y"}]}, "code"),
    ],
)
def test_what_cannot_be_is_damage(tmp_path: Path, change: dict[str, object], message: str) -> None:
    path = tmp_path / "fitted.json"
    fit = fit_law(line_law(), xy_trials([1, 2, 3], [1.0, 2.1, 2.9]), variables=LINE_VARIABLES)
    path.write_text(json.dumps(WHOLE | {"fits": [as_document(fit) | change]}))
    with pytest.raises(InputError, match=f"(?s)is damaged: .*{message}"):
        read_fits(path)


def test_an_estimate_given_twice_or_not_finite_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "fitted.json"
    fit = fit_law(line_law(), xy_trials([1, 2, 3], [1.0, 2.1, 2.9]), variables=LINE_VARIABLES)
    document = as_document(fit)
    twice = document | {"estimates": [document["estimates"][0]] * 2}
    endless = document | {"estimates": [document["estimates"][0] | {"base": "inf"}, document["estimates"][1]]}
    for one, message in ((twice, "given twice"), (endless, "not finite")):
        path.write_text(json.dumps(WHOLE | {"fits": [one]}))
        with pytest.raises(InputError, match=message):
            read_fits(path)
    path.write_text(json.dumps(WHOLE | {"fits": [document, document]}))
    with pytest.raises(InputError, match="two fits of one variable"):
        read_fits(path)


def test_a_singular_covariance_of_which_one_direction_is_known_is_none(tmp_path: Path) -> None:
    path = tmp_path / "fitted.json"
    fit = fit_law(line_law(), xy_trials([1, 2, 3], [1.0, 2.1, 2.9]), variables=LINE_VARIABLES)
    path.write_text(json.dumps(WHOLE | {"fits": [as_document(fit) | {"covariance": [[1.0, 2.0], [2.0, 4.0]]}]}))
    assert read_fits(path)["y"].covariance == ((1.0, 2.0), (2.0, 4.0))


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero"), Path.mkdir])
def test_what_is_no_file_is_neither_waited_for_nor_read(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "fitted.json")
    with pytest.raises(InputError, match="is damaged"):
        read_fits(tmp_path / "fitted.json")


TREES = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["format", "version", "fits", "estimates", "graph"]), inner, max_size=4)
    ),
)


@given(TREES)
def test_any_json_is_read_or_refused(document: object) -> None:
    versions = [{"format": "insitu-fit", "version": version, "fits": [document]} for version in (1, 2)]
    for tree in (document, *versions, WHOLE | {"graph": [document]}):
        with pytest.raises(InputError):
            parse_fitted_laws(json.dumps(tree), Path("fitted.json"))


def test_what_could_not_be_fitted_and_what_the_graph_says_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "fitted.json"
    fit = fit_law(line_law(), xy_trials([1, 2, 3], [1.0, 2.1, 2.9]), variables=LINE_VARIABLES)
    failed = FailedIndependence("x", "y", ("z",), 0.5, 0.01, 20, "They do.")
    graph = GraphCheck(3, (failed,), (Untested("a", "b", (), "too few"),))
    laws = FittedLaws({"y": fit}, (NotFitted("w", "too few trials", "add some"),), graph)
    write_fitted_laws(path, laws)
    assert read_fitted_laws(path) == laws
    assert laws.why_not("w") == NotFitted("w", "too few trials", "add some")
    assert laws.why_not("y") is None


def test_a_file_of_version_1_is_read_as_the_least_squares_that_it_was(tmp_path: Path) -> None:
    """As it was written before links, noise and methods: the fields of that version and no others."""
    path = tmp_path / "fitted.json"
    fit = fit_law(SORT_LAW, sort_trials(np.random.default_rng(3)), variables=SORT_VARIABLES)
    document = as_document(fit)
    later = ("link", "noise", "method", "quantile", "sigma_df", "at_bound", "groups", "prior", "findings")
    old = {name: value for name, value in document.items() if name not in later}
    old["points"] = [{k: v for k, v in point.items() if k != "studentised"} for point in document["points"]]
    path.write_text(json.dumps({"format": "insitu-fit", "version": 1, "fits": [old]}))
    found = read_fitted_laws(path)
    assert found.not_fitted == ()
    assert found.graph is None
    read = found.fits["runtime"]
    assert (read.link, read.noise, read.method) == (Link.IDENTITY, Noise.NORMAL, Method.LEAST_SQUARES)
    assert read.sigma_df == fit.df
    assert [p.studentised for p in read.points] == pytest.approx([p.studentised for p in fit.points])
    assert replace(read, points=fit.points, findings=fit.findings) == fit
    assert whatif(read, SORT_LAW, {"cpu_cores": 0.4}) == whatif(fit, SORT_LAW, {"cpu_cores": 0.4})


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(CannotExecute, match="cannot write to the run directory"):
        write_fits(tmp_path / "absent" / "fitted.json", [])


def test_an_absent_or_unreadable_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no fitted law yet"):
        read_fits(tmp_path / "fitted.json")
    (tmp_path / "fitted.json").write_text("[")
    with pytest.raises(InputError, match="damaged"):
        read_fits(tmp_path / "fitted.json")
