"""Run the command line and tell everything that it does to the machine: ``python -m tests.cli.audited ARGUMENTS``.

The interpreter itself reports each start of a process and each change of a file, whoever asks for it, before it
happens. What it reports goes to stderr, one line each, after a mark.
"""

from __future__ import annotations

import os
import sys

MARK = "audited: "
_CHANGES = frozenset(
    {
        "os.chmod", "os.chown", "os.exec", "os.fork", "os.forkpty", "os.kill", "os.killpg", "os.lchown", "os.link",
        "os.mkdir", "os.posix_spawn", "os.remove", "os.removexattr", "os.rename", "os.rmdir", "os.setxattr",
        "os.spawn", "os.symlink", "os.system", "os.truncate", "os.utime", "shutil.rmtree", "signal.pthread_kill",
        "socket.bind", "socket.connect", "sqlite3.connect", "subprocess.Popen", "tempfile.mkdtemp",
        "tempfile.mkstemp",
    }
)  # fmt: skip
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def changes(event: str, arguments: tuple[object, ...]) -> bool:
    """Whether an event of the interpreter may change something outside this process."""
    if event == "open":
        path, mode, flags = arguments
        writes = isinstance(flags, int) and bool(flags & _WRITING)
        writes |= isinstance(mode, str) and bool(set(mode) & set("wax+"))
        return writes and path != "/dev/null"
    return event in _CHANGES


def _tell(event: str, arguments: tuple[object, ...]) -> None:
    if changes(event, arguments):
        os.write(2, f"{MARK}{event} {arguments}\n".encode(errors="replace"))


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    from insitu.orchestrator.cli import main

    sys.addaudithook(_tell)
    main()
