"""``spae clean``: leftovers of killed commands are listed and removed."""

from spae_dask import leftovers
from tests.storage.writing.small_outputs import write_store
from tests.test_leftovers import killed_writer, writer


def test_it_removes_leftovers_however_deep_and_prints_names_and_bytes(spae, tmp_path, monkeypatch):
    temporary = tmp_path / "tmp"
    deep = tmp_path / "results" / "a" / "b"
    for folder in (temporary, deep):
        folder.mkdir(parents=True)
    monkeypatch.setattr(leftovers, "gettempdir", lambda: str(temporary))
    (tmp_path / "results" / "outside").symlink_to(tmp_path)
    left = killed_writer(deep / "x.zarr")
    scratch = temporary / "spae-workers-0123abcd"
    write_store(scratch, "scratch")
    (temporary / f"{scratch.name}.lock").write_text(left.with_name(f"{left.name}.lock").read_text())
    theirs = deep / ".y.zarr.partial-00c0ffee"
    theirs.mkdir()
    beside = killed_writer(tmp_path / "z.zarr")
    with writer(deep / "w.zarr") as (_, name):
        tried = spae("clean", tmp_path / "results", "--dry-run", "--json").document
        assert left.exists()
        assert scratch.exists()
        ended = spae("clean", tmp_path / "results")
        assert (deep / name / "chunk").exists()
    assert ended.code == 0
    assert not left.exists()
    assert not scratch.exists()
    assert theirs.exists()
    assert beside.exists()
    assert {each["path"]: each["nbytes"] for each in tried["removed"]} == {
        str(left): 1000,
        str(scratch): len("{}") + len("scratch"),
    }
    assert {each["path"]: each["state"] for each in tried["left"]} == {
        str(deep / name): "held",
        str(theirs): "unmarked",
    }
    assert tried["nbytes"] == 1009
    lines = ended.out.splitlines()
    assert f"removed {left}, 1000 B: " in lines[0]
    assert lines[-1] == "removed 2 leftovers, 1009 B"
    assert any(line.startswith(f"left {deep / name}, 1000 B: process ") for line in lines)


def test_a_folder_that_is_not_there_is_an_error(spae, tmp_path):
    ended = spae("clean", tmp_path / "nowhere")
    assert ended.code == 3
    assert "is not a folder on this machine" in ended.err
