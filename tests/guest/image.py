"""Building what the guest boots: two disks, a kernel and its first file system; once, then from the cache.

One disk holds the system and the other the Python packages, so that a new requirement does not build the
system again. Nothing is mounted meanwhile, and half a build is never taken for a whole one.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.guest import cpio, debian, recipe, tools
from tests.guest.errors import CannotRun
from tests.guest.workplace import locked, workplace

_PYTHON = "python"
_FOLDERS = ("shared", "project", "packages", "exchange")
_OLDEST_GLIBC = 12
"""Minor version of the oldest glibc that has wheels under its own name; older ones go as manylinux2014."""
_ASK_PYTHON = "import platform, sys; print(*sys.version_info[:2], platform.libc_ver()[1].split('.')[1])"


@dataclass(frozen=True, slots=True)
class Image:
    """Files to boot; never written to after they were made."""

    kernel: Path
    initramfs: Path
    system_disk: Path
    packages_disk: Path


def provide(cache: Path, tell: Callable[[str], None]) -> Image:
    """The image from `cache`, built first if it is not there.

    Parameters
    ----------
    tell
        Gets a line before each long step.

    Raises
    ------
    CannotRun
        If something must be built, and this machine cannot.
    BuildFailed
        If a step of it fails.
    """
    with locked(cache):
        system = cache / f"system-{_system_key()}"
        if not system.exists():
            _build(system, lambda product: _build_system(product, tell))
        python = _Python.of(system)
        packages = cache / f"packages-{_packages_key(python)}"
        if not packages.exists():
            _build(packages, lambda product: _build_packages(product, python, tell))
    return Image(system / "kernel", system / "initramfs", system / "disk", packages / "disk")


def _build(finished: Path, build: Callable[[Path], None]) -> None:
    """Build a folder in a workplace, and move it to where it will be when it is whole."""
    with workplace(finished.parent) as folder:
        product = folder / "product"
        product.mkdir()
        build(product)
        product.rename(finished)


def _system_key() -> str:
    first_process = recipe.FIRST_PROCESS.read_bytes()
    boot = (recipe.BOOT_MODULES, recipe.KEPT_MODULES.pattern, first_process)
    return recipe.key((recipe.KERNEL_PACKAGE, recipe.SYSTEM_PACKAGES, recipe.MODULES, *boot))


def _build_system(product: Path, tell: Callable[[str], None]) -> None:
    if os.geteuid() != 0:
        raise CannotRun("the guest's image is built as root, once; then it boots without")
    tools.need(tools.TO_BUILD)
    source = debian.archive()
    root = product.parent / "root"
    tell(f"building a Debian {source.release} system (about a minute)")
    debian.make_root(source, root)
    tell("unpacking the kernel")
    unpacked = product.parent / "kernel"
    unpacked.mkdir()
    shutil.move(debian.unpack_kernel(unpacked), product / "kernel")
    modules = debian.modules_folder(unpacked)
    installed = root / "lib/modules" / modules.name
    installed.parent.mkdir(exist_ok=True)
    shutil.move(modules, installed)
    tools.run(["chroot", root, "/sbin/depmod", modules.name])
    debian.with_dependencies(installed, recipe.MODULES)  # fails now, if one is missing
    for name in _FOLDERS:
        (root / name).mkdir()
    (root / "usr/local/bin/python").symlink_to("/usr/bin/python3")
    (product / "initramfs").write_bytes(_initramfs(root, installed))
    (product / _PYTHON).write_text(tools.run(["chroot", root, "/usr/bin/python3", "-c", _ASK_PYTHON]))
    _make_disk(root, product / "disk")


def _initramfs(root: Path, modules: Path) -> bytes:
    files = debian.with_dependencies(modules, recipe.BOOT_MODULES)
    names = [f"{debian.module_name(file.name)}.ko" for file in files]
    folders = ("bin", "dev", "modules", "root")
    return cpio.archive(
        (
            *(cpio.folder(name) for name in folders),
            cpio.file("bin/busybox", (root / "bin/busybox").read_bytes(), 0o755),
            cpio.file("init", recipe.FIRST_PROCESS.read_bytes(), 0o755),
            cpio.file("modules/order", "\n".join(names).encode()),
            *(
                cpio.file(f"modules/{name}", debian.module_code(file))
                for name, file in zip(names, files, strict=True)
            ),
        )
    )


@dataclass(frozen=True, slots=True)
class _Python:
    """The guest's Python, and the minor version of the glibc (2.x) that it runs on."""

    major: int
    minor: int
    glibc_minor: int

    @classmethod
    def of(cls, system: Path) -> _Python:
        return cls(*map(int, (system / _PYTHON).read_text().split()))


def _packages_key(python: _Python) -> str:
    constraints = recipe.constraints().read_text()
    return recipe.key((python, recipe.requirements(), constraints))


def _build_packages(product: Path, python: _Python, tell: Callable[[str], None]) -> None:
    """Install wheels for the guest's Python, whatever this one's version is."""
    tools.need(["mkfs.ext4"])
    version = f"{python.major}.{python.minor}"
    tell(f"installing the packages for the guest's Python {version} (about half a minute)")
    folder = product.parent / "packages"
    target: list[str | Path] = [
        "--target",
        folder,
        "--python-version",
        version,
        "--implementation",
        "cp",
        "--only-binary",
        ":all:",
    ]
    newest_first = range(python.glibc_minor, _OLDEST_GLIBC - 1, -1)
    for platform in (*(f"manylinux_2_{minor}_x86_64" for minor in newest_first), "manylinux2014_x86_64"):
        target += ["--platform", platform]
    if sys.version_info[:2] != (python.major, python.minor):
        target.append("--no-compile")  # byte code of another version is of no use there
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    wanted: list[str | Path] = ["--constraint", recipe.constraints(), *recipe.requirements()]
    tools.fetch("the guest's Python packages", [*pip, *target, *wanted])
    _make_disk(folder, product / "disk")


def _make_disk(folder: Path, disk: Path) -> None:
    """Write a folder into a new ext4 disk, with some room."""
    used_bytes = sum(_blocks_of(path) for path in folder.rglob("*"))
    with disk.open("wb") as file:
        file.truncate(int(used_bytes * 1.15) + 256 * 2**20)
    without = "^has_journal,^metadata_csum"
    tools.run(["mkfs.ext4", "-q", "-m", "0", "-i", "8192", "-O", without, "-d", folder, disk])


def _blocks_of(path: Path) -> int:
    """Bytes of a file on the new disk: whole blocks, and its inode."""
    return -(-path.lstat().st_size // 4096) * 4096 + 256
