"""What the guest is made of is found, complete, and nowhere written down twice."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest

from tests.guest import debian, recipe
from tests.guest.debian import Archive, parse_targets, with_dependencies
from tests.guest.errors import BuildFailed, CannotRun

HERE = Path(__file__).parent


def test_what_the_project_declares_is_installed_but_for_what_the_guest_does_not_use() -> None:
    names = {requirement.partition(">")[0].partition("=")[0] for requirement in recipe.requirements()}
    assert {"numpy", "pydantic", "pytest", "hypothesis"} <= names
    assert names.isdisjoint(recipe.NOT_IN_THE_GUEST)


def test_a_key_depends_on_every_part_and_on_nothing_else() -> None:
    assert recipe.key(("a", ("b", "c"))) == recipe.key(("a", ("b", "c")))
    keys = {recipe.key(parts) for parts in (("a", "b"), ("b", "a"), ("ab",), ("a", ("b",)), ("a", "b", ""))}
    assert len(keys) == 5


def test_no_address_of_a_registry_is_written_down() -> None:
    files = [path for path in HERE.rglob("*") if path.suffix in (".py", ".sh", "")]
    assert files
    for path in files:
        if path.is_file() and path != Path(__file__):
            assert "://" not in path.read_text(), path


TARGETS = """\
file:/srv/other/\tnodistro\tOther\tmain
file:/srv/security/\tplum-security\tDebian-Security\tmain
file:/srv/debian/\tplum-updates\tDebian\tmain
file:/srv/debian/\tplum\tDebian\tcontrib
file:/srv/debian/\tplum\tDebian\tmain
"""


def test_the_archive_is_that_of_apt_s_own_release() -> None:
    assert parse_targets(TARGETS) == Archive("file:/srv/debian/", "plum")


@pytest.mark.parametrize("text", ["", "\n", "\n".join(TARGETS.splitlines()[:4])])
def test_without_a_debian_release_apt_must_be_asked_for_one(text: str) -> None:
    with pytest.raises(CannotRun, match="apt-get update"):
        parse_targets(text)


@pytest.fixture
def modules(tmp_path: Path) -> Path:
    (tmp_path / "modules.dep").write_text(
        "kernel/a.ko: kernel/b.ko kernel/c-d.ko\nkernel/b.ko: kernel/c-d.ko\nkernel/c-d.ko:\nkernel/e.ko.xz:\n"
    )
    (tmp_path / "modules.builtin").write_text("kernel/built-in.ko\n")
    return tmp_path


def test_a_module_comes_after_what_it_needs_and_once(modules: Path) -> None:
    files = with_dependencies(modules, ("b", "built_in", "a", "e"))
    assert [file.name for file in files] == ["c-d.ko", "b.ko", "a.ko", "e.ko.xz"]


def test_a_missing_module_is_named(modules: Path) -> None:
    with pytest.raises(BuildFailed, match="sch_nothing"):
        with_dependencies(modules, ("sch_nothing",))


def test_a_compressed_module_is_unpacked(tmp_path: Path) -> None:
    plain, packed = tmp_path / "a.ko", tmp_path / "b.ko.xz"
    plain.write_bytes(b"code")
    packed.write_bytes(lzma.compress(b"code"))
    assert debian.module_code(plain) == debian.module_code(packed) == b"code"
