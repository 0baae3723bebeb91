import errno
from pathlib import Path

import numpy as np
import pytest

from insitu.orchestrator.errors import CannotExecute, InputError
from insitu.orchestrator.store.samples import read_samples, write_samples


def test_samples_survive(tmp_path: Path) -> None:
    path = tmp_path / "1.parquet"
    write_samples(path, {"cpu": [0.5, float("nan")], "time_s": [0, 0.05]})
    columns = read_samples(path)
    assert list(columns) == ["time_s", "cpu"]
    np.testing.assert_array_equal(columns["cpu"], [0.5, np.nan])
    assert columns["time_s"].dtype == np.float64
    assert [file.name for file in tmp_path.iterdir()] == ["1.parquet"]


def test_ragged_or_timeless_samples_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="same length"):
        write_samples(tmp_path / "1", {"time_s": [0.0], "cpu": []})
    with pytest.raises(ValueError, match="time_s"):
        write_samples(tmp_path / "1", {"cpu": []})
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "1.parquet"
    write_samples(path, {"time_s": [1.0]})

    def full(self: Path, target: Path) -> Path:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(CannotExecute, match="no space left"):
        write_samples(path, {"time_s": [2.0]})
    assert [file.name for file in tmp_path.iterdir()] == ["1.parquet"]
    assert read_samples(path)["time_s"].tolist() == [1.0]


def test_what_is_not_samples_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bad").write_bytes(b"PAR1 nothing PAR1")
    for name in ("bad", "absent"):
        with pytest.raises(InputError, match="cannot read the samples"):
            read_samples(tmp_path / name)
