import json
from pathlib import Path

import numpy as np
import pytest

from insitu.orchestrator.errors import CannotExecute, InputError
from insitu.orchestrator.estimation.fitted_file import as_document, read_fits, write_fits
from insitu.orchestrator.estimation.queries import whatif
from insitu.orchestrator.estimation.refit import fit_law
from tests.standins import LINE_VARIABLES, SORT_LAW, SORT_VARIABLES, line_law, sort_trials, xy_trials


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
    path.write_text(json.dumps({"format": "insitu-fit", "version": 2, "fits": [document], "not_fitted": []}))
    with pytest.raises(InputError, match="wrong shape"):
        read_fits(path)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(CannotExecute, match="cannot write to the run directory"):
        write_fits(tmp_path / "absent" / "fitted.json", [])


def test_an_absent_or_unreadable_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no fitted law yet"):
        read_fits(tmp_path / "fitted.json")
    (tmp_path / "fitted.json").write_text("[")
    with pytest.raises(InputError, match="damaged"):
        read_fits(tmp_path / "fitted.json")
