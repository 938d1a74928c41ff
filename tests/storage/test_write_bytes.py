"""Files are replaced atomically, through names that nobody can foresee, and only where a regular file is."""

import os
import stat
import subprocess

import pytest

import uivi
from tests.storage import crafted
from uivi.storage import archive


@pytest.fixture
def path(tmp_path):
    """A file with contents."""
    (tmp_path / "file").write_bytes(b"old")
    return tmp_path / "file"


def only_the_file(path):
    return [p.name for p in path.parent.iterdir()] == ["file"]


def test_a_file_is_replaced(path):
    archive.write_bytes(path, b"new")
    assert path.read_bytes() == b"new"
    assert only_the_file(path)


@pytest.mark.parametrize("name", ["fsync", "replace"])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(path, monkeypatch, name):
    def full_disk(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, name, full_disk)
    with pytest.raises(OSError, match="No space left"):
        archive.write_bytes(path, b"new")
    assert path.read_bytes() == b"old"
    assert only_the_file(path)


def test_the_rights_of_a_file_are_kept(path):
    path.chmod(0o600)
    archive.write_bytes(path, b"new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_rights_of_a_new_file_are_those_of_the_process(tmp_path):
    before = os.umask(0o027)
    try:
        archive.write_bytes(tmp_path / "file", b"new")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640


def test_long_names_can_be_written(tmp_path):
    archive.write_bytes(tmp_path / ("é" * 120), b"new")
    assert [p.read_bytes() for p in tmp_path.iterdir()] == [b"new"]


@pytest.fixture
def opened(monkeypatch):
    """The names and flags of the files that are opened for writing."""
    seen, real = [], os.open

    def record(path, flags, *args, **kwargs):
        if flags & os.O_CREAT:
            seen.append((os.path.basename(path), flags))
        return real(path, flags, *args, **kwargs)

    monkeypatch.setattr(os, "open", record)
    return seen


def test_temporary_names_cannot_be_foreseen(path, opened):
    for _ in range(3):
        archive.write_bytes(path, b"new")
    names = [name for name, _ in opened]
    assert len(set(names)) == 3
    assert all(name.startswith(".file.") and name.endswith(".tmp") for name in names)
    assert all(len(name) >= len(".file..tmp") + 32 for name in names)
    assert not any(str(os.getpid()) == name.split(".")[2] for name in names)
    wanted = os.O_EXCL | os.O_NOFOLLOW | os.O_CREAT
    assert all(flags & wanted == wanted for _, flags in opened)


@pytest.mark.parametrize("kind", ["link", "file"])
def test_what_lies_under_the_temporary_name_is_neither_followed_nor_overwritten(
    path, tmp_path, monkeypatch, kind
):
    """Even for somebody who could foresee it."""
    monkeypatch.setattr(os, "urandom", lambda size: bytes(size))
    trap, victim = tmp_path / f".file.{'0' * 32}.tmp", tmp_path / "victim"
    victim.write_bytes(b"precious")
    if kind == "link":
        trap.symlink_to(victim)
    else:
        trap.write_bytes(b"precious")
    with pytest.raises(FileExistsError):
        archive.write_bytes(path, b"new")
    assert (path.read_bytes(), trap.read_bytes(), victim.read_bytes()) == (b"old", b"precious", b"precious")


def link(path, victim):
    path.symlink_to(victim)


def dangling_link(path, victim):
    path.symlink_to(victim.with_name("nowhere"))


def link_to_a_directory(path, victim):
    path.symlink_to(victim.parent)


def directory(path, victim):
    path.mkdir()


def pipe(path, victim):
    os.mkfifo(path)


def socket(path, victim):
    import socket as sockets

    with sockets.socket(sockets.AF_UNIX) as opened:
        opened.bind(os.path.relpath(path))


@pytest.mark.parametrize("make", [link, dangling_link, link_to_a_directory, directory, pipe, socket])
def test_only_a_regular_file_is_replaced(make, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    victim, path = tmp_path / "victim", tmp_path / "file"
    victim.write_bytes(b"precious")
    make(path, victim)
    before = path.lstat()
    with pytest.raises(OSError, match="only a regular file is replaced"):
        archive.write_bytes(path, b"new")
    with pytest.raises(
        OSError, match=r"cannot write .*file \(it is .*only a regular file is replaced\): choose"
    ):
        crafted.posterior().save(path)
    after = path.lstat()
    assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode)
    assert victim.read_bytes() == b"precious"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "victim"]


def test_a_device_is_not_replaced():
    with pytest.raises(OSError, match="only a regular file is replaced"):
        archive.write_bytes(archive.pathlib.Path("/dev/null"), b"new")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_a_link_that_comes_while_writing_is_not_replaced(path, tmp_path, monkeypatch):
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    real = os.fsync

    def swap(descriptor):
        path.unlink(missing_ok=True)
        path.symlink_to(victim)
        monkeypatch.setattr(os, "fsync", real)

    monkeypatch.setattr(os, "fsync", swap)
    with pytest.raises(OSError, match="only a regular file is replaced"):
        archive.write_bytes(path, b"new")
    assert path.is_symlink()
    assert victim.read_bytes() == b"precious"


def test_a_link_to_a_file_can_be_loaded(tmp_path):
    crafted.posterior().save(tmp_path / "file")
    (tmp_path / "link").symlink_to("file")
    assert uivi.load(tmp_path / "link").dim == 2


def test_children_do_not_inherit_the_file(path, monkeypatch):
    """A command that is started meanwhile must not hold the temporary file open."""
    real, seen = os.fsync, []

    def look(descriptor):
        command = ["ls", f"/proc/self/fd/{descriptor}"]
        seen.append(subprocess.run(command, capture_output=True, close_fds=False, check=False).returncode)
        return real(descriptor)

    monkeypatch.setattr(os, "fsync", look)
    archive.write_bytes(path, b"new")
    assert seen[0] != 0
