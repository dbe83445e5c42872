"""The fingerprint of files: content where they are small, sizes and times where they are large."""

import os

import pytest

from spae_dask.storage.artifacts import fingerprint
from spae_dask.storage.artifacts.fingerprint import path_fingerprint


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "t" / "b").mkdir(parents=True)
    (tmp_path / "t" / "a").write_bytes(b"12")
    (tmp_path / "t" / "b" / "c").write_bytes(b"345")
    return tmp_path / "t"


def set_time(path, ns):
    os.utime(path, ns=(ns, ns))


def test_small_files_are_known_by_content_wherever_and_whenever(tree):
    before = path_fingerprint(tree)
    set_time(tree / "a", 10**18)
    assert path_fingerprint(tree) == before
    assert path_fingerprint(tree.rename(tree.with_name("u"))) == before


@pytest.mark.parametrize("change", ["content", "name", "new", "gone", "moved byte"])
def test_any_change_of_small_files_is_noticed(tree, change):
    before = path_fingerprint(tree)
    if change == "content":
        (tree / "b" / "c").write_bytes(b"346")
    elif change == "name":
        (tree / "a").rename(tree / "d")
    elif change == "new":
        (tree / "b" / "e").write_bytes(b"")
    elif change == "gone":
        (tree / "a").unlink()
    else:
        (tree / "a").write_bytes(b"123")
        (tree / "b" / "c").write_bytes(b"45")
    assert path_fingerprint(tree) != before


def test_large_files_are_known_by_size_and_time(tree, monkeypatch):
    monkeypatch.setattr(fingerprint, "WHOLE_NBYTES", 4)
    set_time(tree / "a", 10**18)
    before = path_fingerprint(tree)
    (tree / "a").write_bytes(b"99")
    set_time(tree / "a", 10**18)
    assert path_fingerprint(tree) == before
    set_time(tree / "a", 10**18 + 1)
    assert path_fingerprint(tree) != before


def test_a_file_alone_is_known_by_content_whatever_its_name(tree):
    before = path_fingerprint(tree / "a")
    assert path_fingerprint((tree / "a").rename(tree / "z")) == before


def test_nothing_has_no_fingerprint(tmp_path):
    with pytest.raises(FileNotFoundError):
        path_fingerprint(tmp_path / "none")
