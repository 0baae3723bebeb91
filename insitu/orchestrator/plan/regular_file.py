"""Files of others, read without being held up or flooded by what they turn out to be."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def read_regular(path: Path, most_bytes: int, *, follow: bool = True) -> bytes:
    """Content of a regular file; of one that is longer, `most_bytes` and one more.

    A pipe, a terminal or a device is refused when it is opened, not read until it ends, and what the kernel makes
    up is read as far as it is there.

    Parameters
    ----------
    follow
        Whether the name may be that of a symbolic link.

    Raises
    ------
    OSError
        If it cannot be read, or is no regular file.
    ValueError
        If there is a NUL character in the path.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        if error.errno == errno.ELOOP and not follow:
            raise OSError(errno.ELOOP, "it is a symbolic link") from error
        raise
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        return file.read(most_bytes + 1) or b""
