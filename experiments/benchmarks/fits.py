"""Least squares on many rows: one more trial after many, and a table of ten million rows; beside statsmodels.

The refit is held against a whole OLS of statsmodels and against its RecursiveLS, which is the nearest to one
trial at a time that it has. The table is fitted from Parquet in bounded memory, and by statsmodels from arrays
that are in memory already, so that its time has no reading in it.
"""

from __future__ import annotations

import gc
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from experiments.benchmarks.claims import Claim
from insitu.orchestrator.causal.blueprint import build_blueprint
from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.estimation.at_scale.recursive import RecursiveFit
from insitu.orchestrator.estimation.at_scale.streaming import fit_parquet
from insitu.orchestrator.plan.types import LawText, ModelText, Role, Variable

PARAMETERS = 20
TRIALS = (100, 1_000_000)
REFIT_TARGET_S = 1e-3
FLAT = 1.5
"""Largest ratio of the two times that is called flat."""
RECURSIVE_LS_TRIALS = 10_000
"""Above, RecursiveLS is left out: its time and memory grow with the trials, and a million would need 10 GB."""
TABLE_ROWS = 10_000_000
TABLE_TARGET_S = 2.0
TABLE_TARGET_MB = 100
"""Memory that is called bounded: a fifth of the rows."""
ROW_GROUP = 1 << 20
TEXT = "c + a * size / rate + b * size / cores + d * requests + e * wait"
TRUTH = {"c": 0.5, "a": 1.0, "b": 6e-8, "d": 1e-3, "e": 2.0}


@dataclass(frozen=True, slots=True)
class Took:
    """Time, and how far the resident memory rose above what it was before."""

    seconds: float
    grown_bytes: int


def main() -> list[Claim]:
    """Print both tables; the targets that they are held to."""
    return [*refits(), *tables()]


def refits() -> list[Claim]:
    """One more trial after a hundred and after a million, and what statsmodels takes for the same fit."""
    rng = np.random.default_rng(20)
    print(f"refit after one more trial, {PARAMETERS} parameters: values, covariance, sigma, R squared")
    print(f"{'trials':>10}{'insitu':>12}{'OLS':>12}{'RecursiveLS':>14}{'OLS / insitu':>14}")
    medians = [_refit_row(trials, rng) for trials in TRIALS]
    ratio = medians[1] / medians[0]
    return [
        Claim(
            f"refit after one more trial, {trials:,} trials",
            f"{REFIT_TARGET_S * 1e3:g} ms",
            f"{took * 1e3:.3f} ms",
            took <= REFIT_TARGET_S,
        )
        for trials, took in zip(TRIALS, medians, strict=True)
    ] + [Claim("refit does not grow with the trials", f"x{FLAT:g} at most", f"x{ratio:.2f}", ratio <= FLAT)]


def _refit_row(trials: int, rng: np.random.Generator) -> float:
    """Print one row; seconds of a refit."""
    from statsmodels.regression.recursive_ls import RecursiveLS

    rows, response = _ill_scaled(rng, trials)
    ours = _refit_s(rows, response, rng)
    whole = _median_s(lambda: _whole_refit(rows, response), 3 if trials > RECURSIVE_LS_TRIALS else 50)
    peer = "-"
    if trials <= RECURSIVE_LS_TRIALS:
        scaled = rows / np.abs(rows).max(axis=0)
        peer = f"{_median_s(lambda: RecursiveLS(response, scaled).fit(), 3) * 1e3:.1f} ms"
    print(f"{trials:>10,}{ours * 1e6:>9.0f} us{whole * 1e3:>9.2f} ms{peer:>14}{whole / ours:>14,.0f}")
    return ours


def _refit_s(rows: Array, response: Array, rng: np.random.Generator) -> float:
    """Median time of taking in one more trial and of all that a fit has."""
    fit = RecursiveFit("runtime", [f"b{index}" for index in range(PARAMETERS)])
    fit.add(rows, response)
    more, outcomes = _ill_scaled(rng, 300)
    took = []
    for index in range(len(more)):
        begin = time.perf_counter()
        fit.add(more[index : index + 1], outcomes[index : index + 1])
        found = fit.fitted()
        found.covariance_matrix  # noqa: B018 - it is computed when asked for
        took.append(time.perf_counter() - begin)
    return statistics.median(took)


def _whole_refit(rows: Array, response: Array) -> None:
    import statsmodels.api as sm

    fitted = sm.OLS(response, rows).fit()
    fitted.cov_params()
    fitted.rsquared  # noqa: B018 - it is computed when asked for


def _ill_scaled(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
    scales = 10.0 ** np.linspace(-3, 9, PARAMETERS)
    rows = rng.normal(3.0, 1.0, (n, PARAMETERS)) * scales
    return rows, rows @ (1 / scales) + rng.normal(size=n)


def tables() -> list[Claim]:
    """Ten million rows from Parquet, and from memory."""
    import statsmodels.api as sm

    model = _model()
    law = build_blueprint(model).laws["runtime"]
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        path = Path(folder) / "trials.parquet"
        _write(path)
        size = f"{path.stat().st_size / 1e6:,.0f} MB of Parquet"
        print(f"\n{TABLE_ROWS:,} rows by {len(model.variables)} columns, {size}")
        small = Path(folder) / "small.parquet"
        _write(small, 1000)
        fit_parquet(law, small, variables=model.variables)  # loads libraries, whose memory is not the fit's
        ours = []
        for _ in range(5):
            with _measured() as took:
                found = fit_parquet(law, path, variables=model.variables)
            ours.append(took[0])
        rows, response = _in_memory(path, law.parents, law.design_matrix)
    with _measured() as took:
        peer = sm.OLS(response, rows).fit()
        peer.bse  # noqa: B018 - it is computed when asked for
    theirs = took[0]
    seconds = statistics.median(one.seconds for one in ours)
    grown = max(one.grown_bytes for one in ours)
    apart = max(
        abs(one.base - value) / error
        for one, value, error in zip(found.fit.estimates, peer.params, peer.bse, strict=True)
    )
    print(f"{'':24}{'time':>10}{'memory':>12}")
    print(f"{'insitu, from the file':24}{seconds:>8.2f} s{grown / 1e6:>9,.0f} MB")
    print(f"{'statsmodels, in memory':24}{theirs.seconds:>8.2f} s{theirs.grown_bytes / 1e6:>9,.0f} MB")
    print(f"{'ratio':24}{theirs.seconds / seconds:>10.1f}{theirs.grown_bytes / grown:>12.1f}")
    print(f"the estimates are at most {apart:.1g} standard errors apart")
    held = f"{(rows.nbytes + response.nbytes) / 1e6:,.0f} MB"
    what = f"fit of {TABLE_ROWS // 10**6} million rows by {len(model.variables)} from Parquet"
    return [
        Claim(
            what,
            f"{TABLE_TARGET_S:g} s",
            f"{seconds:.2f} s, statsmodels in memory {theirs.seconds:.2f} s",
            seconds <= TABLE_TARGET_S,
        ),
        Claim(
            f"{what}: memory",
            f"{TABLE_TARGET_MB} MB",
            f"{grown / 1e6:.0f} MB, statsmodels {theirs.grown_bytes / 1e6:,.0f} MB beside the rows' {held}",
            grown <= TABLE_TARGET_MB * 1e6,
        ),
    ]


def _model() -> ModelText:
    variables = (
        Variable("size", "B", Role.PARAMETER),
        Variable("rate", "B/s", Role.SET, "disk.read_rate"),
        Variable("cores", "core", Role.SET, "cpu.cores"),
        Variable("requests", "", Role.PARAMETER),
        Variable("wait", "s", Role.PARAMETER),
        Variable("runtime", "s", Role.MEASURED, "wall_time"),
    )
    text = LawText("runtime", TEXT, 1, 1)
    return ModelText(Path("model.yaml"), {one.name: one for one in variables}, (text,), ())


def _write(path: Path, rows: int = TABLE_ROWS) -> None:
    """Rows of which no two are alike, so that neither dictionaries nor compression make the file small."""
    import pyarrow
    from pyarrow import parquet

    rng = np.random.default_rng(7)
    names = ("size", "rate", "cores", "requests", "wait", "runtime")
    schema = pyarrow.schema([(name, pyarrow.float64()) for name in names])
    with parquet.ParquetWriter(path, schema) as writer:
        for first in range(0, rows, ROW_GROUP):
            n = min(ROW_GROUP, rows - first)
            size, rate = rng.uniform(1e6, 1e9, n), rng.uniform(1e6, 2e8, n)
            cores, requests, wait = rng.uniform(0.2, 4, n), rng.uniform(0, 1e4, n), rng.exponential(0.1, n)
            runtime = TRUTH["c"] + TRUTH["a"] * size / rate + TRUTH["b"] * size / cores + TRUTH["d"] * requests
            runtime += TRUTH["e"] * wait + rng.normal(0, 0.5, n)
            columns = [pyarrow.array(one) for one in (size, rate, cores, requests, wait, runtime)]
            writer.write_table(pyarrow.table(columns, schema=schema), row_group_size=ROW_GROUP)


def _in_memory(
    path: Path, parents: tuple[str, ...], design_matrix: Callable[[dict[str, Array]], Array]
) -> tuple[Array, Array]:
    from pyarrow import parquet

    table = parquet.read_table(path)
    levels = {name: table.column(name).to_numpy() for name in parents}
    return design_matrix(levels), np.array(table.column("runtime").to_numpy())


def _median_s(work: Callable[[], object], rounds: int) -> float:
    took = []
    for _ in range(rounds):
        begin = time.perf_counter()
        work()
        took.append(time.perf_counter() - begin)
    return statistics.median(took)


@contextmanager
def _measured() -> Iterator[list[Took]]:
    """Measure the body; the list has one entry after it."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the highest resident memory is counted from here on
    before = _memory_bytes("VmRSS")
    measured: list[Took] = []
    begin = time.perf_counter()
    yield measured
    took = time.perf_counter() - begin
    measured.append(Took(took, max(1, _memory_bytes("VmHWM") - before)))


def _memory_bytes(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0]) * 1024
    raise LookupError(field)


if __name__ == "__main__":
    main()
