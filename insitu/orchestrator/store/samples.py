"""Samples of a trial over time, as Parquet; with `tables` the door to pyarrow."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from insitu.orchestrator.errors import InputError
from insitu.orchestrator.store.database import mapped_errors

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

TIME = "time_s"
"""Name of the column of seconds since the subject started."""


PENDING_COLUMNS = "trial, names, cells"
"""Of the table of samples that wait to be written out: names as JSON, cells as little-endian float64."""


def pack(columns: Mapping[str, Sequence[float]]) -> tuple[str, bytes]:
    """Samples as the database keeps them: names, and cells column after column."""
    cells = array("d", (value for column in columns.values() for value in column))
    if sys.byteorder == "big":
        cells.byteswap()
    return json.dumps(list(columns)), cells.tobytes()


def unpack(names: str, cells: bytes) -> dict[str, Sequence[float]]:
    """Undo `pack`."""
    columns = json.loads(names)
    values = array("d", cells)
    if sys.byteorder == "big":
        values.byteswap()
    length = len(values) // len(columns)
    return {name: values[i * length : (i + 1) * length] for i, name in enumerate(columns)}


def write_samples(path: Path, columns: Mapping[str, Sequence[float]]) -> None:
    """Write samples whole or not at all; safe to call from a background thread.

    Not flushed to the disk: the measurements that an estimate needs are in the trial's record.

    Parameters
    ----------
    columns
        ``time_s`` and further names, each with as many values, in base units.

    Raises
    ------
    ValueError
        If ``time_s`` is missing or the columns differ in length.
    CannotExecute
        If there is no space or the folder cannot be written.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = Path(path)
    if TIME not in columns:
        raise ValueError(f"samples need a column {TIME}")
    if len({len(column) for column in columns.values()}) != 1:
        raise ValueError("all columns of samples need the same length")
    names = [TIME, *(name for name in columns if name != TIME)]
    table = pa.table({name: pa.array(columns[name], pa.float64()) for name in names})
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    with mapped_errors(path.parent):
        try:
            pq.write_table(table, unfinished, compression="zstd")
            unfinished.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                unfinished.unlink()
            raise


def read_samples(path: Path) -> dict[str, npt.NDArray[np.float64]]:
    """Read samples; each column has shape (samples,), ``time_s`` comes first.

    Raises
    ------
    InputError
        If the file is missing or is not a file of samples.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        if not Path(path).is_file():
            raise ValueError("it is missing, or not a regular file")
        table = pq.ParquetFile(Path(path)).read()
        if TIME not in table.column_names:
            raise ValueError(f"it has no column {TIME}")
        return {name: table.column(name).cast(pa.float64()).to_numpy() for name in table.column_names}
    except (OSError, ValueError, pa.ArrowException) as error:
        raise InputError(f"cannot read the samples in {path}: {error}") from error
