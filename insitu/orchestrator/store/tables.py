"""Columns of numbers, and of words for numbers, in Parquet files of any size; a batch at a time."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from insitu.orchestrator.errors import InputError
from insitu.orchestrator.plan.hints import suggest

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[np.float64]

Coding = Callable[[str], float | None]
"""Word to its number; ``None`` for a word without one."""

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
    """A Parquet file, or all those in a folder in order of their paths, as far as some columns go.

    Attributes
    ----------
    codings
        Of the columns that may hold words.
    """

    path: Path
    columns: tuple[str, ...]
    codings: Mapping[str, Coding]
    parts: tuple[TablePart, ...]

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts)

    @classmethod
    def open(cls, path: Path, columns: Collection[str], codings: Mapping[str, Coding]) -> Table:
        """Read what the files say of themselves, and nothing more.

        Raises
        ------
        InputError
            If a file cannot be read, or lacks a column, or has something else than numbers there, or than words
            where these stand for numbers.
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
                    fixed = _check_columns(fragment.path, file.schema_arrow, wanted, folders, codings)
                    for number in range(file.num_row_groups):
                        rows = file.metadata.row_group(number).num_rows
                        parts.append(TablePart(fragment.path, number, first, rows, fixed, file.metadata))
                        first += rows
        return cls(path, wanted, codings, tuple(parts))

    def batches(self, part: TablePart, *, threads: bool) -> Iterator[dict[str, Array]]:
        """Read a part: column to its numbers, each of shape (rows of the batch,).

        What is missing, and a word without a number, is NaN.

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
                given = {name: _numbers(batch.column(name), self.codings.get(name)) for name in stored}
                yield given | {name: np.full(batch.num_rows, value) for name, value in fixed.items()}


def _check_columns(
    path: str, schema: Any, wanted: Collection[str], folders: Mapping[str, Any], codings: Mapping[str, Coding]
) -> tuple[tuple[str, float], ...]:
    """Refuse a file without some column; return what its folders say in its stead."""
    fixed: list[tuple[str, float]] = []
    for name in wanted:
        places = schema.get_all_field_indices(name)
        if not places and name in folders:
            fixed.append((name, _folder_number(path, name, folders[name], codings.get(name))))
        elif len(places) != 1:
            some = f"has {len(places)} columns" if places else "has no column"
            raise InputError(f"{path} {some} {name}", hint=suggest(name, [*schema.names, *folders]))
        elif not _is_number(kind := schema.field(places[0]).type):
            if name not in codings:
                raise InputError(f"column {name} of {path} holds {kind}, not numbers")
            if not _is_text(kind):
                raise InputError(f"column {name} of {path} holds {kind}, neither words nor numbers")
    return tuple(fixed)


def _folder_number(path: str, name: str, value: Any, coding: Coding | None) -> float:
    number = coding(str(value)) if coding is not None else None
    try:
        return float(value) if number is None else number
    except (TypeError, ValueError):
        raise InputError(f"the folders of {path} give {name} as {value}, not a number") from None


def _is_number(kind: Any) -> bool:
    from pyarrow import types

    return any(one(kind) for one in (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean))


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    of = kind.value_type if types.is_dictionary(kind) else kind
    return any(one(of) for one in (types.is_string, types.is_large_string, types.is_string_view))


def _numbers(column: Any, coding: Coding | None) -> Array:
    import pyarrow

    numbers: Array
    if _is_number(column.type) or coding is None:
        numbers = column.cast(pyarrow.float64()).to_numpy(zero_copy_only=False)
        return numbers
    words = column if pyarrow.types.is_dictionary(column.type) else column.dictionary_encode()
    found = [None if word is None else coding(word) for word in words.dictionary.to_pylist()]
    of_words = np.array([math.nan if one is None else one for one in (*found, None)])
    numbers = of_words[words.indices.fill_null(len(found)).to_numpy(zero_copy_only=False)]
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
