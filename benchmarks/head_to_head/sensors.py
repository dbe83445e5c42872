"""Sensor placement of PySensors and of spae_dask: reconstruction error on held-out rows against the number of sensors.

Run ``python -m benchmarks.head_to_head.sensors`` in the environment of ``make head-to-head``.
"""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure

from benchmarks.head_to_head.pages import COLOURS, OURS, Page, wins
from spae_dask import SparseEncoder

Floats = npt.NDArray[np.float64]
Reconstruct = Callable[[Floats], Floats]
Placed = tuple[npt.NDArray[np.intp], Reconstruct]
"""Sensors, and the reconstruction of all columns from the measurements at them."""

MODES = 10
SIZES = ((MODES, MODES), (MODES, 15), (MODES, 20), (MODES, 40), (20, 20), (40, 40))
"""Modes and sensors."""

HEAD = ("data", "modes", "sensors", "tool", "RMSE")
CONSTRAINED_HEAD = ("data", "constraint", "tool", "RMSE", "sensors in the region", "cost of the sensors")

METHOD = """
The error is the root mean square of reconstructed minus true entries, over all columns of held-out rows, in the unit of
the data. Each tool places the sensors and learns the reconstruction on three quarters of the rows, less their mean.
PySensors uses an SVD basis of as many modes as the table says, and the better of its two reconstructions on the
held-out rows: least squares or regularized. It ranks as many sensors as modes; QR adds random sensors beyond that, and
TPGR places them by its own criterion. spae_dask uses one support for all components
(`SparseEncoder(modes, n_nonzero=sensors, shared_support=True)`) and the decoder of the encoder.

Data: digits of scikit-learn (1,797 images of 64 pixels), temperature of the A1B scenario from iris-sample-data (240
years, 1,813 cells of a grid, kelvin), and the heat simulations of PySensors' examples (49 runs, 40,510 cells, kelvin).
Sizes with more modes than training rows are left out. The second table has 20 sensors and 20 modes. GQR allows no
sensor in the region, the first third of the columns. spae_dask gets the other columns, and a least-squares decoder of
its codes to all columns. CCQR pays a cost for each sensor of the region: the median norm of the rows of the basis.
spae_dask has no costs here, so its row shows what its free choice would cost.
"""


@dataclass(frozen=True)
class Score:
    """Error of one tool."""

    data: str
    modes: int
    sensors: int
    tool: str
    rmse: float


def rmse(found: Floats, true: Floats) -> float:
    """Root mean square of the difference."""
    return float(np.sqrt(np.mean((found - true) ** 2)))


def halves(X: Floats) -> tuple[Floats, Floats]:
    """Three quarters of the rows for training and the others for tests, both less the mean of the training rows."""
    order = np.random.default_rng(0).permutation(len(X))
    train, test = X[order[: 3 * len(X) // 4]], X[order[3 * len(X) // 4 :]]
    return train - train.mean(axis=0), test - train.mean(axis=0)


def ours(train: Floats, modes: int, sensors: int) -> Placed:
    """Place sensors by one support of all components."""
    encoder = SparseEncoder(modes, n_nonzero=sensors, shared_support=True).fit(train)
    support = np.flatnonzero(encoder.components_.any(axis=0))

    def reconstruct(measured: Floats) -> Floats:
        rows = np.zeros((len(measured), train.shape[1]))
        rows[:, support] = measured
        return np.asarray(encoder.inverse_transform(encoder.transform(rows)))

    return support, reconstruct


def ours_outside(train: Floats, modes: int, sensors: int, region: npt.NDArray[np.bool_]) -> Placed:
    """Place sensors outside a region, and decode to all columns by least squares."""
    allowed = np.flatnonzero(~region)
    encoder = SparseEncoder(modes, n_nonzero=sensors, shared_support=True).fit(train[:, allowed])
    support = np.flatnonzero(encoder.components_.any(axis=0))
    places = allowed[support]
    decoder = np.linalg.lstsq(train[:, places] @ encoder.components_[:, support].T, train, rcond=None)[0]
    return places, lambda measured: measured @ encoder.components_[:, support].T @ decoder


def theirs(train: Floats, modes: int, sensors: int, optimizer: Any, **options: Any) -> list[Placed]:
    """Place sensors by PySensors: one entry for each of its reconstructions."""
    from pysensors import SSPOR
    from pysensors.basis import SVD

    model = SSPOR(SVD(modes, random_state=0), optimizer, sensors)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(train, quiet=True, seed=0, **options)

    def by(method: str | None) -> Reconstruct:
        def reconstruct(measured: Floats) -> Floats:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return np.asarray(model.predict(measured, method=method))

        return reconstruct

    return [(model.get_selected_sensors(), by(method)) for method in ("unregularized", None)]


def error(placed: Placed, test: Floats) -> float:
    """Error on held-out rows, of which only the measured columns are read."""
    places, reconstruct = placed
    return rmse(reconstruct(test[:, places]), test)


def data() -> Iterator[tuple[str, Floats]]:
    """Matrices by name."""
    import iris_sample_data
    import pandas as pd
    import xarray as xr
    from sklearn.datasets import load_digits

    yield "digits", load_digits().data.astype(np.float64)
    path = f"{iris_sample_data.path}/A1B_north_america.nc"
    with xr.open_dataset(path, engine="h5netcdf", decode_times=False) as stored:
        yield "A1B temperature", stored["air_temperature"].values.reshape(240, -1).astype(np.float64)
    spec = find_spec("examples")
    assert spec is not None
    folder = Path(next(iter(spec.submodule_search_locations or []))) / "data" / "simulation_example_data"
    yield "heat simulations", np.array([pd.read_csv(file).iloc[:, 0] for file in sorted(folder.glob("*.csv"))])


def compare(name: str, X: Floats) -> list[Score]:
    """Errors of all tools on one matrix."""
    from pysensors.optimizers import QR, TPGR

    train, test = halves(X)
    found = []
    for modes, sensors in SIZES:
        if modes > len(train):
            continue
        errors = {OURS: error(ours(train, modes, sensors), test)}
        for tool, optimizer in {"QR": QR(), "TPGR": TPGR(n_sensors=sensors)}.items():
            errors[tool] = min(error(each, test) for each in theirs(train, modes, sensors, optimizer))
        found += [Score(name, modes, sensors, tool, value) for tool, value in errors.items()]
        print(name, modes, sensors, errors, flush=True)
    return found


def constrained(name: str, X: Floats) -> list[list[str]]:
    """Rows of the table of regions and costs."""
    from pysensors.basis import SVD
    from pysensors.optimizers import CCQR, GQR, QR

    train, test = halves(X)
    region = np.arange(X.shape[1]) < X.shape[1] // 3
    modes = sensors = 20
    basis = SVD(modes, random_state=0).fit(train).basis_matrix_
    costs = np.median(np.linalg.norm(basis, axis=1)) * region
    places = np.flatnonzero(region)
    ranked = theirs(train, modes, sensors, QR())[0][0]
    rest = np.setdiff1d(np.arange(X.shape[1]), ranked)
    forbidden = {
        "idx_constrained": places,
        "n_const_sensors": 0,
        "n_sensors": sensors,
        "all_sensors": np.concatenate([ranked, rest]),
        "constraint_option": "max_n",
    }
    runs = {
        ("no sensor in the region", "GQR"): theirs(train, modes, sensors, GQR(), **forbidden),
        ("no sensor in the region", OURS): [ours_outside(train, modes, sensors, region)],
        ("cost in the region", "CCQR"): theirs(train, modes, sensors, CCQR(costs)),
        ("cost in the region", f"{OURS}, without costs"): [ours(train, modes, sensors)],
    }
    return [
        [
            name,
            constraint,
            tool,
            f"{min(error(each, test) for each in placed):.4f}",
            f"{int(region[placed[0][0]].sum())}",
            f"{costs[placed[0][0]].sum():.3f}",
        ]
        for (constraint, tool), placed in runs.items()
    ]


def cases(scores: list[Score]) -> list[dict[str, float]]:
    """Errors by tool for each matrix and size."""
    grouped: dict[tuple[str, int, int], dict[str, float]] = {}
    for score in scores:
        grouped.setdefault((score.data, score.modes, score.sensors), {})[score.tool] = score.rmse
    return list(grouped.values())


def verdict(scores: list[Score]) -> str:
    """Say who has the least error in how many cases, and how far the tools are apart."""
    found = cases(scores)
    more = cases([score for score in scores if score.sensors > score.modes])
    ratios = [each[OURS] / min(value for tool, value in each.items() if tool != OURS) for each in found]
    return (
        f"Least error: {wins(found, 4)} cases, and {wins(more, 4)} with more sensors than modes; the error of {OURS} "
        f"is {min(ratios):.2f} to {max(ratios):.2f} times the best of PySensors, {np.median(ratios):.2f} in the median."
    )


def picture(scores: list[Score]) -> Figure:
    """Error against sensors at a fixed number of modes, one panel for each matrix."""
    names, tools = list(dict.fromkeys(score.data for score in scores)), (OURS, "QR", "TPGR")
    figure = Figure(figsize=(10, 3.4), layout="constrained")
    for axes, name in zip(np.atleast_1d(figure.subplots(1, len(names))), names, strict=True):
        for tool, colour in zip(tools, COLOURS, strict=False):
            drawn = [s for s in scores if (s.data, s.tool, s.modes) == (name, tool, MODES)]
            axes.plot([s.sensors for s in drawn], [s.rmse for s in drawn], "o-", color=colour, label=tool)
        axes.set_title(name, loc="left", fontsize=10)
        axes.set_xlabel("sensors")
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_ylabel(f"error, {MODES} modes")
    handles = figure.axes[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside upper right", ncols=len(COLOURS), frameon=False, fontsize=8)
    return figure


def main() -> None:
    """Run the comparison and write its page."""
    scores: list[Score] = []
    rows: list[list[str]] = []
    for name, X in data():
        scores += compare(name, X)
        rows += constrained(name, X)
    table = [[s.data, f"{s.modes}", f"{s.sensors}", s.tool, f"{s.rmse:.4f}"] for s in scores]
    page = Page(
        "sensors",
        "Sensors",
        verdict(scores),
        METHOD,
        [(HEAD, table), (CONSTRAINED_HEAD, rows)],
        ("python-sensors", "iris-sample-data", "scikit-learn"),
    )
    page.write(picture(scores))


if __name__ == "__main__":
    main()
