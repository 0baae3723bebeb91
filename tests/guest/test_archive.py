"""The archive for the kernel, read as its documentation says that the kernel reads it."""

from __future__ import annotations

import stat

from hypothesis import given
from hypothesis import strategies as st

from tests.guest.cpio import Member, archive, file, folder

NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=30).filter(
    lambda name: name != "TRAILER!!!"
)
MEMBERS = st.builds(Member, NAMES, st.sampled_from([stat.S_IFREG | 0o644, stat.S_IFDIR | 0o755]), st.binary())


def unpacked(data: bytes) -> list[Member]:
    """Members up to the trailer; fails unless every part begins at a multiple of four bytes."""
    members: list[Member] = []
    at = 0
    while True:
        assert data[at : at + 6] == b"070701"
        fields = [int(data[at + 6 + 8 * i : at + 14 + 8 * i], 16) for i in range(13)]
        mode, size, name_size = fields[1], fields[6], fields[11]
        begin = at + 110
        name = data[begin : begin + name_size]
        assert name.endswith(b"\0")
        begin += name_size + -(begin + name_size) % 4
        if name == b"TRAILER!!!\0":
            assert begin == len(data)
            return members
        members.append(Member(name[:-1].decode(), mode, data[begin : begin + size]))
        at = begin + size + -size % 4


@given(st.lists(MEMBERS, max_size=5))
def test_what_was_packed_is_unpacked(members: list[Member]) -> None:
    assert unpacked(archive(members)) == members


def test_files_and_folders_are_told_apart_and_keep_their_permissions() -> None:
    program, place = unpacked(archive([file("init", b"#!", 0o755), folder("dev")]))
    assert (stat.filemode(program.mode), program.content) == ("-rwxr-xr-x", b"#!")
    assert (stat.filemode(place.mode), place.content) == ("drwxr-xr-x", b"")
