"""The parts of a Debian system: the root folder, the kernel, the modules.

They come from wherever this machine's own apt gets them.
"""

from __future__ import annotations

import lzma
import re
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

from tests.guest import recipe, tools
from tests.guest.errors import BuildFailed, CannotRun

_FIELDS = ("REPO_URI", "CODENAME", "LABEL", "COMPONENT")


@dataclass(frozen=True, slots=True)
class Archive:
    """Where a release of Debian is.

    Attributes
    ----------
    release
        Its code name.
    """

    address: str
    release: str


def archive() -> Archive:
    """The main archive that this machine's apt is configured with.

    Raises
    ------
    CannotRun
        If it has none of Debian's.
    """
    layout = "\t".join(f"$({field})" for field in _FIELDS)
    return parse_targets(tools.run(["apt-get", "indextargets", "--format", layout, "Created-By: Packages"]))


def parse_targets(text: str) -> Archive:
    """Choose among apt's index targets: the first of Debian's own that is a release, not updates to one."""
    for line in text.splitlines():
        fields = dict(zip(_FIELDS, line.split("\t"), strict=False))
        plain = fields.get("CODENAME", "").isalpha()
        if fields.get("LABEL") == "Debian" and plain and fields.get("COMPONENT") == "main":
            return Archive(fields["REPO_URI"], fields["CODENAME"])
    raise CannotRun("the guest is a Debian system, and apt here knows no Debian release; try: apt-get update")


def make_root(source: Archive, root: Path) -> None:
    """Install the guest's packages into the new folder `root`.

    Raises
    ------
    CannotRun
        If the archive does not give them.
    """
    included = ",".join(recipe.SYSTEM_PACKAGES)
    bootstrap = ["debootstrap", "--variant=minbase", f"--include={included}"]
    whence: list[str | Path] = [source.release, root, source.address]
    proxy = _proxy()
    tools.fetch("the guest's system", [*bootstrap, "--download-only", *whence], environment=proxy)
    tools.run([*bootstrap, *whence], environment=proxy)
    for cached in (root / "var/cache/apt/archives").glob("*.deb"):
        cached.unlink()


def _proxy() -> dict[str, str]:
    """apt's proxy, for debootstrap, which asks the environment only."""
    settings = tools.run(["apt-config", "dump", "--format", "%v%n", "Acquire::http::Proxy"]).split()
    return {"http_proxy": settings[0]} if settings else {}


def unpack_kernel(into: Path) -> Path:
    """Download Debian's kernel; unpack its image and the modules that the guest may use.

    Returns
    -------
    Path
        The kernel's image, below `into`.

    Raises
    ------
    CannotRun
        If there is none to be had.
    """
    depends = tools.run(["apt-cache", "depends", "--important", recipe.KERNEL_PACKAGE])
    found = re.search(r"Depends: (linux-image-\S+)", depends)
    if found is None:
        raise CannotRun(f"apt here knows no package {recipe.KERNEL_PACKAGE}; try: apt-get update")
    tools.fetch("the guest's kernel", ["apt-get", "download", found[1]], cwd=into)
    (package,) = into.glob("*.deb")
    with subprocess.Popen(
        [tools.path_of("dpkg-deb"), "--fsys-tarfile", str(package)], stdout=subprocess.PIPE
    ) as unpacking:
        assert unpacking.stdout is not None
        with tarfile.open(fileobj=unpacking.stdout, mode="r|") as members:
            for member in members:
                if _is_wanted(member.name):
                    members.extract(member, into)
    package.unlink()
    kernels = list((into / "boot").glob("vmlinuz-*"))
    if unpacking.returncode or len(kernels) != 1:
        raise BuildFailed(f"{found[1]} is not the kernel package that it should be")
    return kernels[0]


def _is_wanted(name: str) -> bool:
    path = name.removeprefix("./").removeprefix("usr/")
    if not path.startswith("lib/modules/"):
        return path.startswith("boot/vmlinuz-")
    below = "/".join(path.split("/")[3:])
    return below.startswith("modules.") or recipe.KEPT_MODULES.match(below) is not None


def modules_folder(unpacked: Path) -> Path:
    """The folder of the kernel's modules, named by its version."""
    (folder,) = [*unpacked.glob("lib/modules/*"), *unpacked.glob("usr/lib/modules/*")]
    return folder


def with_dependencies(modules: Path, names: tuple[str, ...]) -> tuple[Path, ...]:
    """Files of modules and of what they depend on, in the order in which they can be loaded.

    Parameters
    ----------
    modules
        A kernel's folder of modules, with ``modules.dep`` (kmod's ``modules.dep(5)``).
    """
    needs: dict[str, tuple[str, ...]] = {}
    for line in (modules / "modules.dep").read_text().splitlines():
        file, _, others = line.partition(":")
        needs[file] = tuple(reversed(others.split()))
    by_name = {module_name(file): file for file in needs}
    built_in = {module_name(file) for file in (modules / "modules.builtin").read_text().split()}
    ordered: dict[str, None] = {}
    for name in names:
        if name in built_in:
            continue
        if name not in by_name:
            raise BuildFailed(f"this kernel has no module {name}")
        ordered |= dict.fromkeys((*needs[by_name[name]], by_name[name]))
    return tuple(modules / file for file in ordered)


def module_name(file: str) -> str:
    return Path(file).name.split(".")[0].replace("-", "_")


def module_code(file: Path) -> bytes:
    """A module as the kernel takes it, uncompressed."""
    return lzma.decompress(file.read_bytes()) if file.suffix == ".xz" else file.read_bytes()
