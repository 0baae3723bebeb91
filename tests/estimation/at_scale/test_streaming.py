from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from insitu.orchestrator.errors import InputError, NotIdentified, OutsideSupport
from insitu.orchestrator.estimation.at_scale.streaming import NotFinite, ParquetFit, fit_parquet
from insitu.orchestrator.estimation.checks.finding import Check
from insitu.orchestrator.estimation.fitted_file import read_fits, write_fits
from insitu.orchestrator.estimation.questions.queries import whatif
from insitu.orchestrator.plan.law_kinds import Bounds, Link, Method, Noise
from insitu.orchestrator.store import tables
from tests.causal.models import VARIABLES as MODEL_VARIABLES
from tests.causal.models import law_of

Array = npt.NDArray[np.float64]
VARIABLES = {one.name: one for one in MODEL_VARIABLES}
TRUTH = np.array([0.5, 1.0, 6e-8])
TEXT = "c + a * size / rate + b * size / cores + cpu"


def columns_of(rng: np.random.Generator, n: int) -> dict[str, Array]:
    """Sizes of gigabytes, rates of hundreds of megabytes, times of seconds."""
    levels = {
        "size": rng.uniform(1e8, 1e9, n),
        "rate": rng.uniform(1e7, 2e8, n),
        "cores": rng.uniform(0.2, 4, n),
        "cpu": rng.exponential(2.0, n),
    }
    law = law_of(TEXT)
    runtime = law.design_matrix(levels) @ TRUTH + law.offsets(levels) + rng.normal(0, 0.5, n)
    return {**levels, "runtime": runtime}


def write(path: Path, columns: dict[str, Array], row_group: int = 1000) -> Path:
    parquet.write_table(pa.table(columns), path, row_group_size=row_group)
    return path


def fitted(path: Path, text: str = TEXT, not_finite: NotFinite = NotFinite.REFUSE) -> ParquetFit:
    return fit_parquet(law_of(text), path, variables=VARIABLES, not_finite=not_finite)


@pytest.fixture(scope="module")
def columns() -> dict[str, Array]:
    return columns_of(np.random.default_rng(1), 5000)


def test_it_is_ordinary_least_squares_on_columns_of_very_different_size(
    tmp_path: Path, columns: dict[str, Array]
) -> None:
    import statsmodels.api as sm

    fit = fitted(write(tmp_path / "t.parquet", columns)).fit
    law = law_of(TEXT)
    scales = np.array([1.0, 1.0, 1e9])
    rows = law.design_matrix(columns) / scales
    batch = sm.OLS(columns["runtime"] - law.offsets(columns), rows).fit()
    assert [one.name for one in fit.estimates] == ["c", "a", "b"]
    assert np.array([one.base for one in fit.estimates]) * scales == pytest.approx(batch.params, rel=1e-10)
    covariance = np.array(fit.covariance) * np.outer(scales, scales)
    assert covariance == pytest.approx(batch.cov_params(), rel=1e-10)
    assert fit.sigma**2 == pytest.approx(batch.scale, rel=1e-10)
    assert (fit.n, fit.df) == (5000, 4997)
    about_mean = ((columns["runtime"] - columns["runtime"].mean()) ** 2).sum()
    assert fit.r_squared == pytest.approx(1 - batch.ssr / about_mean, rel=1e-10)
    limits = batch.conf_int() / scales[:, None]
    for estimate, (low, high), p_value in zip(fit.estimates, limits, batch.pvalues, strict=True):
        scale = law.parameter_scales[estimate.name]
        assert (estimate.reported_low, estimate.reported_high) == pytest.approx((low * scale, high * scale))
        assert estimate.p_value == pytest.approx(p_value, abs=1e-12)


@given(
    seed=st.integers(0, 2**32 - 1),
    row_group=st.integers(1, 700),
    files=st.integers(1, 4),
    batch=st.integers(1, 300),
)
@settings(max_examples=25, deadline=None)
def test_any_split_and_any_order_of_the_rows_give_one_fit(
    tmp_path_factory: pytest.TempPathFactory, seed: int, row_group: int, files: int, batch: int
) -> None:
    rng = np.random.default_rng(seed)
    columns = columns_of(rng, 600)
    folder = tmp_path_factory.mktemp("split")
    one = fitted(write(folder / "whole.parquet", columns, 10_000))
    parts = folder / "parts"
    parts.mkdir()
    for number, rows in enumerate(np.array_split(rng.permutation(600), files)):
        write(parts / f"{number}.parquet", {name: column[rows] for name, column in columns.items()}, row_group)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "BATCH_ROWS", batch)
        other = fitted(parts)
    assert_same(one, other)
    assert other.fit.support == one.fit.support
    assert other.fit.max_leverage == pytest.approx(one.fit.max_leverage, rel=1e-9)


def assert_same(one: ParquetFit, other: ParquetFit) -> None:
    values, others = (np.array([estimate.base for estimate in found.fit.estimates]) for found in (one, other))
    assert others == pytest.approx(values, rel=1e-10)
    assert np.array(other.fit.covariance) == pytest.approx(np.array(one.fit.covariance), rel=1e-9)
    assert other.fit.sigma == pytest.approx(one.fit.sigma, rel=1e-11)
    assert other.fit.r_squared == pytest.approx(one.fit.r_squared, rel=1e-11)
    assert (other.fit.n, other.fit.df) == (one.fit.n, one.fit.df)


def test_the_same_files_give_the_same_digits_however_many_threads_read(
    tmp_path: Path, columns: dict[str, Array]
) -> None:
    path = write(tmp_path / "t.parquet", columns, 100)
    fits = [fit_parquet(law_of(TEXT), path, variables=VARIABLES, threads=threads) for threads in (1, 2, 7, 2)]
    assert all(found.fit == fits[0].fit for found in fits)


def test_a_collinear_intercept_far_from_the_data_keeps_its_digits(tmp_path: Path) -> None:
    """At a condition number of 1e5 sums of products would keep six digits of sixteen."""
    rng = np.random.default_rng(4)
    rate = 1e6 + rng.normal(0, 10, 4000)
    runtime = 3.0 + 2e-6 * rate
    fit = fitted(write(tmp_path / "t.parquet", {"rate": rate, "runtime": runtime}), "c + a * rate").fit
    assert fit.diagnostics.condition_number > 1e5
    assert [one.base for one in fit.estimates] == pytest.approx([3.0, 2e-6], rel=1e-9)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_outcomes_that_are_not_finite_are_counted_and_refused_or_left_out(
    tmp_path: Path, columns: dict[str, Array], bad: float
) -> None:
    spoilt = {name: column.copy() for name, column in columns.items()}
    spoilt["runtime"][[17, 1017, 4999]] = bad
    path = write(tmp_path / "t.parquet", spoilt)
    with pytest.raises(InputError, match=r"3 of 5000 rows .* are not finite.* row 17, counted from 0"):
        fitted(path)
    found = fitted(path, not_finite=NotFinite.LEAVE_OUT)
    assert (found.rows, found.left_out, found.fit.n) == (5000, 3, 4997)
    said = found.fit.finding(Check.SKIPPED)
    assert said is not None
    assert said.sentence.startswith("3 of 5000 rows are not fitted")
    good = np.isfinite(spoilt["runtime"])
    kept = {name: column[good] for name, column in spoilt.items()}
    assert_same(found, fitted(write(tmp_path / "kept.parquet", kept)))


def test_missing_numbers_and_division_by_zero_count_as_not_finite(
    tmp_path: Path, columns: dict[str, Array]
) -> None:
    table = pa.table(columns)
    sizes = pa.array([None, *columns["size"][1:]], pa.float64())
    rates = pa.array([0.0 if row == 4 else value for row, value in enumerate(columns["rate"])])
    table = table.set_column(0, "size", sizes).set_column(1, "rate", rates)
    parquet.write_table(table, tmp_path / "t.parquet")
    found = fitted(tmp_path / "t.parquet", not_finite=NotFinite.LEAVE_OUT)
    assert found.left_out == 2
    assert found.fit.support_of("rate").low == np.delete(columns["rate"], [0, 4]).min()


def test_an_unlimited_level_is_a_level(tmp_path: Path, columns: dict[str, Array]) -> None:
    unlimited = {**columns, "rate": np.where(np.arange(5000) % 3, columns["rate"], np.inf)}
    law = law_of(TEXT)
    unlimited["runtime"] = law.design_matrix(unlimited) @ TRUTH + law.offsets(unlimited)
    found = fitted(write(tmp_path / "t.parquet", unlimited))
    assert found.left_out == 0
    assert [one.base for one in found.fit.estimates] == pytest.approx(TRUTH)
    support = found.fit.support_of("rate")
    assert support.high == columns["rate"][np.arange(5000) % 3 > 0].max()
    asked = {"size": 5e8, "rate": np.inf, "cores": 1.0, "cpu": 1.0}
    assert whatif(found.fit, law, asked).mean == pytest.approx(0.5 + 30 + 1)


def test_a_term_that_is_always_zero_is_named_and_not_estimated(tmp_path: Path, columns: dict[str, Array]) -> None:
    law = law_of(TEXT)
    never = {**columns, "rate": np.full(5000, np.inf)}
    never["runtime"] = law.design_matrix(never) @ TRUTH + law.offsets(never)
    path = write(tmp_path / "t.parquet", never)
    found = fitted(path)
    assert found.fit.not_estimated == ("a",)
    assert [one.name for one in found.fit.estimates] == ["c", "b"]
    assert [one.base for one in found.fit.estimates] == pytest.approx([TRUTH[0], TRUTH[2]])
    assert found.triangle.parameters == 3
    inside = {"size": 5e8, "rate": np.inf, "cores": 1.0, "cpu": 1.0}
    assert whatif(found.fit, law, inside).mean == pytest.approx(0.5 + 30 + 1)
    with pytest.raises(OutsideSupport, match="a was not estimated"):
        whatif(found.fit, law, {**inside, "rate": 1e8}, extrapolate=True)


def test_questions_are_answered_within_the_table_and_refused_outside(
    tmp_path: Path, columns: dict[str, Array]
) -> None:
    law = law_of(TEXT)
    fit = fitted(write(tmp_path / "t.parquet", columns)).fit
    asked = {"size": 4e8, "rate": 1e8, "cores": 1.0, "cpu": 0.5}
    answer = whatif(fit, law, asked)
    assert answer.mean_low < 0.5 + 4 + 24 + 0.5 < answer.mean_high
    with pytest.raises(OutsideSupport):
        whatif(fit, law, {**asked, "size": 4e9})


def test_a_fit_survives_its_file(tmp_path: Path, columns: dict[str, Array]) -> None:
    fit = fitted(write(tmp_path / "t.parquet", columns)).fit
    write_fits(tmp_path / "fitted.json", [fit])
    assert read_fits(tmp_path / "fitted.json") == {"runtime": fit}


def test_columns_may_have_other_names_types_and_come_from_folders(
    tmp_path: Path, columns: dict[str, Array]
) -> None:
    rows = {name: column[:2000].round() + 1 for name, column in columns.items()}
    for cores in (1, 2):
        folder = tmp_path / "table" / f"cores={cores}"
        folder.mkdir(parents=True)
        here = slice(cores - 1, None, 2)
        table = pa.table(
            {
                "bytes": pa.array(rows["size"][here].astype(np.int64)),
                "read rate": pa.array(rows["rate"][here].astype(np.float32)),
                "cpu": pa.array(rows["cpu"][here]).dictionary_encode().cast(pa.float64()),
                "seconds": pa.array(rows["runtime"][here]).cast(pa.decimal128(30, 2)),
                "comment": ["not needed"] * 1000,
            }
        )
        parquet.write_table(table, folder / "part-0.parquet")
    law = law_of(TEXT)
    names = {"size": "bytes", "rate": "read rate", "runtime": "seconds"}
    found = fit_parquet(law, tmp_path / "table", names, variables=VARIABLES)
    plain = {**rows, "cores": np.where(np.arange(2000) % 2, 2.0, 1.0)}
    plain["rate"] = plain["rate"].astype(np.float32).astype(float)
    assert_same(found, fitted(write(tmp_path / "plain.parquet", plain)))


def test_words_of_categories_are_their_numbers_in_columns_and_folders(
    tmp_path: Path, columns: dict[str, Array]
) -> None:
    law = law_of("c[kind] + a * size / rate")
    numbers = np.arange(3000) % 3
    rows = {name: columns[name][:3000] for name in ("size", "rate")} | {"kind": numbers.astype(float)}
    rows["runtime"] = law.design_matrix(rows) @ [1.0, 2.0, 3.0, 0.9] + columns["cpu"][:3000]
    plain = fit_parquet(law, write(tmp_path / "numbers.parquet", rows), variables=VARIABLES)
    assert plain.fit.parameters == law.parameters
    words = pa.array(np.array(["ssd", "hdd", "nvme"])[numbers])
    for name, column in {"text": words, "dictionary": words.dictionary_encode()}.items():
        table = pa.table({**rows, "kind": column})
        parquet.write_table(table, tmp_path / f"{name}.parquet", row_group_size=700)
        found = fit_parquet(law, tmp_path / f"{name}.parquet", variables=VARIABLES)
        assert_same(plain, found)
    for number, word in enumerate(("ssd", "hdd", "nvme")):
        folder = tmp_path / "folders" / f"kind={word}"
        folder.mkdir(parents=True)
        here = {name: column[numbers == number] for name, column in rows.items() if name != "kind"}
        write(folder / "part.parquet", here)
    assert_same(plain, fit_parquet(law, tmp_path / "folders", variables=VARIABLES))
    unknown = pa.array([None, "tape", *words.to_pylist()[2:]])
    parquet.write_table(pa.table({**rows, "kind": unknown}), tmp_path / "unknown.parquet")
    with pytest.raises(InputError, match="2 of 3000 rows"):
        fit_parquet(law, tmp_path / "unknown.parquet", variables=VARIABLES)


def test_a_parameter_stops_at_its_bound(tmp_path: Path, columns: dict[str, Array]) -> None:
    path = write(tmp_path / "t.parquet", columns)
    law = law_of(TEXT)
    free = fitted(path).fit
    loose = replace(law, bounds={"c": Bounds(low=0.0), "a": Bounds(low=0.0)})
    assert fit_parquet(loose, path, variables=VARIABLES).fit == free
    tight = replace(law, bounds={"c": Bounds(low=0.6)})
    held = fit_parquet(tight, path, variables=VARIABLES).fit
    assert held.at_bound == ("c",)
    assert held.values[0] == 0.6
    assert (held.df, held.sigma_df) == (4998, 4998)
    assert (held.covariance_matrix[0] == 0).all()
    shifted = {**columns, "runtime": columns["runtime"] - 0.6}
    left = fitted(write(tmp_path / "left.parquet", shifted), TEXT.removeprefix("c + ")).fit
    assert held.values[1:] == pytest.approx(left.values, rel=1e-10)
    assert held.covariance_matrix[1:, 1:] == pytest.approx(left.covariance_matrix, rel=1e-9)
    finding = held.finding(Check.BOUND)
    assert finding is not None
    assert finding.parameters == ("c",)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"terms": ()}, "is not linear"),
        ({"link": Link.LOG}, "has a log link"),
        ({"noise": Noise.GAMMA}, "has gamma noise"),
        ({"method": Method.ROBUST}, "asks for the method robust"),
    ],
)
def test_laws_that_one_pass_cannot_fit_are_refused(
    tmp_path: Path, columns: dict[str, Array], change: dict[str, Any], says: str
) -> None:
    path = write(tmp_path / "t.parquet", columns)
    with pytest.raises(InputError, match=says):
        fit_parquet(replace(law_of(TEXT), **change), path, variables=VARIABLES)
    with pytest.raises(InputError, match="has no parameters"):
        fitted(path, "size / rate")


def test_too_few_rows_and_mixed_parameters_are_named(tmp_path: Path, columns: dict[str, Array]) -> None:
    few = {name: column[:3] for name, column in columns.items()}
    with pytest.raises(NotIdentified, match="3 rows are too few for the 3 parameters of runtime"):
        fitted(write(tmp_path / "few.parquet", few))
    none = {name: column[:0] for name, column in columns.items()}
    with pytest.raises(NotIdentified, match="0 rows are too few"):
        fitted(write(tmp_path / "none.parquet", none))
    same = {**columns, "rate": columns["cores"] * 5e7}
    with pytest.raises(NotIdentified, match="tell a and b apart"):
        fitted(write(tmp_path / "same.parquet", same))


def test_faults_of_the_table_are_said_in_words(tmp_path: Path, columns: dict[str, Array]) -> None:
    with pytest.raises(InputError, match=r"there is no .*nowhere\.parquet"):
        fitted(tmp_path / "nowhere.parquet")
    (tmp_path / "text.parquet").write_text("not at all")
    with pytest.raises(InputError, match="cannot be read as Parquet"):
        fitted(tmp_path / "text.parquet")
    wrong = {name: column for name, column in columns.items() if name != "rate"} | {"rates": columns["rate"]}
    with pytest.raises(InputError, match="has no column rate") as caught:
        fitted(write(tmp_path / "wrong.parquet", wrong))
    assert caught.value.hint == "did you mean 'rates'?"
    parquet.write_table(
        pa.table({**columns, "rate": [str(one) for one in columns["rate"]]}), tmp_path / "words.parquet"
    )
    with pytest.raises(InputError, match=r"column rate of .* holds string, not numbers"):
        fitted(tmp_path / "words.parquet")
    with pytest.raises(InputError, match="does not mention speed"):
        fit_parquet(law_of(TEXT), tmp_path / "wrong.parquet", {"speed": "rates"}, variables=VARIABLES)


def test_damaged_files_are_refused(tmp_path: Path, columns: dict[str, Array]) -> None:
    path = write(tmp_path / "t.parquet", columns)
    whole = path.read_bytes()
    path.write_bytes(whole[:-100])
    with pytest.raises(InputError, match="cannot be read as Parquet"):
        fitted(path)
    path.write_bytes(whole[:4] + bytes(1000) + whole[1004:])
    with pytest.raises(InputError, match="cannot be read as Parquet"):
        fitted(path)
    parquet.write_table(pa.table(columns), path, write_page_checksum=True)
    data = path.read_bytes()
    path.write_bytes(data[:20_000] + bytes(64) + data[20_064:])
    with pytest.raises(InputError, match="cannot be read as Parquet"):
        fitted(path)


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="there are no Parquet files in"):
        fitted(tmp_path / "empty")
