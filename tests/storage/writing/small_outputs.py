"""Small stores as outputs, whole and half written."""

from pathlib import Path

from spae_dask.storage.writing.publish import publish


def write_store(work: Path, text: str) -> None:
    (work / "c").mkdir(parents=True)
    (work / "zarr.json").write_text("{}")
    (work / "c" / "0").write_text(text)


def write_half_and_fail(path: Path, failure: BaseException | type[BaseException], *, overwrite: bool) -> None:
    with publish(path, overwrite=overwrite) as work:
        write_store(work, "half")
        raise failure


def listing(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())
