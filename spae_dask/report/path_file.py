"""A sparsity path read from a file: the table of ``spae path -o``, or the output of ``spae path --json``."""

import csv
import json
from pathlib import Path
from typing import Any

from spae_dask.errors import InvalidInput, NotFound, StorageError
from spae_dask.plain_files import beside, refuse_pipes
from spae_dask.storage.writing.json_and_csv import from_json
from spae_dask.strategies.path import PathPoint, SparsityPath

WANTED = "Give the .csv that `spae path -o` wrote, or the .json that `spae path --json` printed"


def read_path(path: str | Path, n_components: int) -> SparsityPath:
    """Read the points of as many components as an encoder has.

    Parameters
    ----------
    path : str or Path
        A ``.csv`` or ``.json`` file.
    n_components : int
        k of the encoder.

    Raises
    ------
    NotFound, StorageError
        If there is no such file, or it cannot be read.
    InvalidInput
        If it is something else, or has no point of ``n_components``.
    """
    text = _text(path)
    try:
        found = _from_csv(text) if str(path).endswith(".csv") else SparsityPath.from_dict(from_json(json.loads(text)))
    except (TypeError, KeyError, ValueError, RecursionError, csv.Error) as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise InvalidInput(f"{path} is not a sparsity path ({what}). {WANTED}.") from error
    mine = tuple(point for point in found.points if point.n_components == n_components)
    if not mine:
        ks = ", ".join(map(str, sorted({point.n_components for point in found.points}))) or "none"
        raise InvalidInput(
            f"{path} has no encoders of {n_components} components, as this one has, but only of k = {ks}. "
            f"Make them: `spae path DATA -k {n_components} -r 5,10,20 -o path.csv`."
        )
    return SparsityPath(mine, found.method)


def origin_of(path: str | Path, page: str | Path) -> str:
    """Sentence about the source of the points: a path relative to the page, or a file name.

    Parameters
    ----------
    path, page : str or Path
        File of the points, and the page. Folders outside the page's own are left out, as the page may be passed on.
    """
    file, folder = Path(path).resolve(), Path(page).resolve().parent
    name = file.relative_to(folder) if file.is_relative_to(folder) else file.name
    return f"The other encoders are those of {name}."


def _text(path: str | Path) -> str:
    refuse_pipes(path)
    try:
        return Path(path).read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise NotFound(f"there is nothing at {path}.{beside(path)} {WANTED}.") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path} is not a text file. {WANTED}.") from error
    except OSError as error:
        raise StorageError(
            f"{path} cannot be read: {error.strerror}. Check that it is a file and that you may read it."
        ) from error


def _from_csv(text: str) -> SparsityPath:
    records: list[dict[str, Any]] = list(csv.DictReader(text.splitlines()))
    methods = {str(each.get("method") or "") for each in records}
    return SparsityPath(tuple(PathPoint.from_record(each) for each in records), ", ".join(sorted(methods - {""})))
