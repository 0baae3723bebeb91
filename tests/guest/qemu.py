"""Booting the image, and ending it: whatever happens, no QEMU and no file of a boot is left."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.guest import recipe, tools
from tests.guest.errors import GuestFailed
from tests.guest.image import Image
from tests.guest.orders import Order, read_status, results_folder
from tests.guest.workplace import locked, workplace

_CPUS, _MEMORY = "2", "3G"
_SCRATCH_BYTES = 4 * 2**30  # sparse
_KERNEL_LINE = (
    *("console=ttyS0", "loglevel=5", "panic=-1"),  # a panic reboots, and a reboot ends QEMU
    *("cgroup_no_v1=all", "psi=1"),
    *("mitigations=off", "random.trust_cpu=on"),
    "tsc=reliable",  # the emulated processors share the host's counter; the kernel would choose a clock of 5 us
)
_EMULATED = ("-accel", "tcg,thread=multi", "-cpu", "Nehalem")  # numpy's least; emulating newer ones is slower
_VIRTUAL = ("-accel", "kvm", "-cpu", "host")
_PATIENCE_S = 5.0
"""How long QEMU may take to end after it was asked to."""


@dataclass(frozen=True, slots=True)
class Boot:
    """One boot of an image.

    Attributes
    ----------
    folder
        For what this boot writes; removed by who made it.
    """

    image: Image
    folder: Path

    @property
    def exchange(self) -> Path:
        """Folder shared with the guest, writable there."""
        return self.folder / "exchange"

    @property
    def console(self) -> Path:
        """What the guest's kernel and its first process say."""
        return self.folder / "console.log"

    @property
    def scratch_disk(self) -> Path:
        return self.folder / "scratch"

    def command(self) -> tuple[str, ...]:
        """QEMU's command line: no network, no write to the image, standard output from the guest's command."""
        disks = (
            f"file={self.image.system_disk},snapshot=on",
            f"file={self.image.packages_disk},readonly=on",
            f"file={self.scratch_disk},cache=unsafe,discard=unmap",
        )
        shares = (
            f"mount_tag=project,path={recipe.PROJECT},readonly=on",
            f"mount_tag=exchange,path={self.exchange}",
        )
        return (
            *(tools.path_of("setpriv"), "--pdeathsig", "KILL", tools.path_of("qemu-system-x86_64")),
            *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
            *("-machine", "q35", "-smp", _CPUS, "-m", _MEMORY, *(_VIRTUAL if _kvm_works() else _EMULATED)),
            *("-kernel", str(self.image.kernel), "-initrd", str(self.image.initramfs)),
            *("-append", " ".join(_KERNEL_LINE)),
            *(word for disk in disks for word in ("-drive", f"format=raw,if=virtio,{disk}")),
            *(
                word
                for share in shares
                for word in ("-virtfs", f"local,security_model=none,multidevs=remap,{share}")
            ),
            *("-serial", f"file:{self.console}"),
            *("-device", "virtio-serial-pci", "-chardev", "stdio,id=output,signal=off"),
            *("-device", "virtserialport,chardev=output,name=output"),
            *("-device", "virtio-rng-pci"),
        )

    def prepare(self, order: Order) -> None:
        self.exchange.mkdir()
        order.write(self.exchange)
        with self.scratch_disk.open("wb") as file:
            file.truncate(_SCRATCH_BYTES)
        whole = "lazy_itable_init=0,lazy_journal_init=0"  # else the guest's kernel does it while tests measure
        tools.run(["mkfs.ext4", "-q", "-m", "0", "-i", "65536", "-E", whole, self.scratch_disk])


def _kvm_works() -> bool:
    """Whether the processor virtualises, too: some machines have the device and no processor behind it."""
    flags = Path("/proc/cpuinfo").read_text().partition("\nflags")[2].partition("\n")[0].split()
    return os.access("/dev/kvm", os.R_OK | os.W_OK) and not {"vmx", "svm"}.isdisjoint(flags)


def execute(image: Image, order: Order, cache: Path, *, timeout_s: float, results: Path | None) -> int:
    """Boot, execute an order, and power off; what its command prints goes to our standard output.

    Parameters
    ----------
    timeout_s
        Host time after which QEMU is ended, whatever the guest does.
    results
        Folder that gets what the command leaves in its folder of results.

    Returns
    -------
    int
        The command's exit status.

    Raises
    ------
    GuestFailed
        If the guest ended without telling one, or the time is up; with the console's last lines.
    """
    with ExitStack() as stack:
        with locked(cache):
            folder = stack.enter_context(workplace(cache))
        boot = Boot(image, folder)
        boot.prepare(order)
        stack.callback(_keep, boot.console, cache / "console.log")
        try:
            with running(boot.command()) as process:
                process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise GuestFailed(f"the guest took more than {timeout_s:g} s{_last_words(boot.console)}") from None
        status = read_status(boot.exchange)
        if status is None:
            raise GuestFailed(f"the guest ended without a word on its command{_last_words(boot.console)}")
        if results is not None:
            shutil.copytree(results_folder(boot.exchange), results, dirs_exist_ok=True)
        return status


@contextmanager
def running(command: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A process that ends with the context, in a group of its own, so that Ctrl-C reaches us and not it.

    Its standard input stays open and empty: at its end QEMU would take what it prints to for closed.
    """
    process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(_PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if process.stdin is not None:
            process.stdin.close()


def _keep(console: Path, copy: Path) -> None:
    if console.exists():
        shutil.copyfile(console, copy)


def _last_words(console: Path) -> str:
    text = console.read_text(errors="replace") if console.exists() else ""
    return "".join(f"\n  {line}" for line in text.strip().splitlines()[-15:])
