"""Small objects by name: the same from a folder of a disk and from an object store."""

import pickle
from pathlib import Path

import pytest

from spae_dask.errors import InvalidInput, StorageError
from spae_dask.storage.small_objects import SmallObjects, open_objects


@pytest.fixture(params=["disk", "s3"])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> SmallObjects:
    if request.param == "disk":
        return open_objects(tmp_path / "new" / "folder")
    return open_objects(f"{request.getfixturevalue('bucket')}/folder")


def test_what_is_put_is_got_listed_replaced_and_deleted(objects: SmallObjects) -> None:
    assert objects.list() == ()
    assert objects.get("a.bin") is None
    objects.delete("a.bin")
    objects.put("b.bin", b"")
    objects.put("a.bin", b"one")
    objects.put("a.bin", bytes(range(256)))
    sent = pickle.loads(pickle.dumps(objects))
    assert sent.list() == ("a.bin", "b.bin")
    assert (sent.get("a.bin"), sent.get("b.bin")) == (bytes(range(256)), b"")
    sent.delete("a.bin")
    assert objects.list() == ("b.bin",)


@pytest.mark.parametrize("name", ["", "a/b", "..", ".hidden"])
def test_names_that_are_no_plain_names_are_our_own_bugs(objects: SmallObjects, name: str) -> None:
    with pytest.raises(AssertionError, match="no plain name"):
        objects.put(name, b"x")


def test_what_a_killed_writer_left_is_not_listed(tmp_path: Path) -> None:
    (tmp_path / ".a.partial-1234").write_bytes(b"half")
    assert open_objects(tmp_path).list() == ()


def test_a_folder_that_is_a_file_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError, match="could not be written"):
        open_objects(tmp_path / "file").put("a", b"x")


def test_places_that_cannot_be_written_are_refused() -> None:
    with pytest.raises(InvalidInput, match="s3:// or gs://"):
        open_objects("https://host/folder")
