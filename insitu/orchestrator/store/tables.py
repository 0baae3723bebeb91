"""Columns of numbers in Parquet files of any size, a batch at a time."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from insitu.orchestrator.errors import InputError
from insitu.orchestrator.plan.hints import suggest

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[np.float64]

BATCH_ROWS = 1 << 14
"""Rows that are in memory at once, for each thread that reads."""
_BUFFER_BYTES = 1 << 20
"""Read ahead per column; without it a whole row group's column would be in memory, however large it is."""


@dataclass(frozen=True, slots=True)
class TablePart:
    """One row group of one file.

    Attributes
    ----------
    first
        Number of its first row in the whole table, from 0.
    fixed
        Columns that the names of the file's folders give (``day=3``).
    """

    path: str
    row_group: int
    first: int
    rows: int
    fixed: tuple[tuple[str, float], ...]
    metadata: Any


@dataclass(frozen=True, slots=True)
class Table:
    """A Parquet file, or all those in a folder in order of their paths, as far as some columns go."""

    path: Path
    columns: tuple[str, ...]
    parts: tuple[TablePart, ...]

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts)

    @classmethod
    def open(cls, path: Path, columns: Collection[str]) -> Table:
        """Read what the files say of themselves, and nothing more.

        Raises
        ------
        InputError
            If a file cannot be read, or lacks a column, or has something else than numbers there.
        """
        import pyarrow.dataset
        from pyarrow import parquet

        wanted = tuple(dict.fromkeys(columns))
        parts: list[TablePart] = []
        first = 0
        with _explained(path):
            found = pyarrow.dataset.dataset(path, format="parquet", partitioning="hive")
            fragments = sorted(found.get_fragments(), key=lambda one: str(one.path))
            if not fragments:
                raise InputError(f"there are no Parquet files in {path}")
            for fragment in fragments:
                folders = pyarrow.dataset.get_partition_keys(fragment.partition_expression)
                with parquet.ParquetFile(fragment.path) as file:
                    fixed = _check_columns(fragment.path, file.schema_arrow, wanted, folders)
                    for number in range(file.num_row_groups):
                        rows = file.metadata.row_group(number).num_rows
                        parts.append(TablePart(fragment.path, number, first, rows, fixed, file.metadata))
                        first += rows
        return cls(path, wanted, tuple(parts))

    def batches(self, part: TablePart, *, threads: bool) -> Iterator[dict[str, Array]]:
        """Read a part: column to its numbers, each of shape (rows of the batch,); what is missing is NaN.

        Parameters
        ----------
        threads
            Whether to decode columns at the same time; not needed where parts are read at the same time.

        Raises
        ------
        InputError
            If the file is damaged.
        """
        from pyarrow import parquet

        fixed = dict(part.fixed)
        stored = [name for name in self.columns if name not in fixed]
        with (
            _explained(part.path),
            parquet.ParquetFile(
                part.path,
                metadata=part.metadata,
                pre_buffer=False,
                buffer_size=_BUFFER_BYTES,
                page_checksum_verification=True,  # of files that have checksums
            ) as file,
        ):
            for batch in file.iter_batches(BATCH_ROWS, [part.row_group], stored, use_threads=threads):
                given = {name: _numbers(batch.column(name)) for name in stored}
                yield given | {name: np.full(batch.num_rows, value) for name, value in fixed.items()}


def _check_columns(
    path: str, schema: Any, wanted: Sequence[str], folders: dict[str, Any]
) -> tuple[tuple[str, float], ...]:
    """Refuse a file without some column of numbers; return what its folders say in its stead."""
    from pyarrow import types

    fixed: list[tuple[str, float]] = []
    for name in wanted:
        places = schema.get_all_field_indices(name)
        if not places and name in folders:
            try:
                fixed.append((name, float(folders[name])))
            except (TypeError, ValueError):
                raise InputError(f"the folders of {path} give {name} as {folders[name]}, not a number") from None
        elif len(places) != 1:
            some = f"has {len(places)} columns" if places else "has no column"
            raise InputError(f"{path} {some} {name}", hint=suggest(name, [*schema.names, *folders]))
        else:
            kind = schema.field(places[0]).type
            known = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean)
            if not any(is_kind(kind) for is_kind in known):
                raise InputError(f"column {name} of {path} holds {kind}, not numbers")
    return tuple(fixed)


def _numbers(column: Any) -> Array:
    import pyarrow

    numbers: Array = column.cast(pyarrow.float64()).to_numpy(zero_copy_only=False)
    return numbers


@contextlib.contextmanager
def _explained(path: Path | str) -> Iterator[None]:
    """Turn the errors of pyarrow and of the file system into errors for the user."""
    import pyarrow

    try:
        yield
    except FileNotFoundError as error:
        raise InputError(f"there is no {path}") from error
    except (OSError, pyarrow.ArrowException) as error:
        raise InputError(f"{path} cannot be read as Parquet: {str(error).splitlines()[0]}") from error
