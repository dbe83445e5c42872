"""Sparse PCA of scikit-learn and xeofs beside spae_dask at equal nonzeros, on growing data, up to the time limit.

Run ``python -m benchmarks.head_to_head.sparse_pca`` in the environment of ``make head-to-head``. The data are those of
``benchmarks.field``.
"""

import argparse
import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from benchmarks import field
from benchmarks.head_to_head.pages import COLOURS, OURS, Page, best
from benchmarks.process_tree import Watched, watch

K, R = 5, 10
LIMIT = 60.0
"""Seconds that a process may take."""

SIZES = ((500, 50), (1_000, 100), (2_000, 200), (4_000, 400), (8_000, 800), (16_000, 1_600), (32_000, 3_200))


def loss_of(rows: field.Floats, components: field.Floats) -> field.Answer:
    """Share explained by the best decoder of the codes of these components, and how many nonzeros they have."""
    from spae_dask import encoder_metrics

    found = encoder_metrics(rows - rows.mean(axis=0), components.T)
    return {
        "explained": found.explained,
        "ratio": found.ratio,
        "nonzeros": float((components != 0).sum() / len(components)),
    }


def by_penalty(model: Callable[[float], Any], rows: field.Floats, k: int, r: int) -> field.Answer:
    """The penalty with k r nonzeros in all, or as near as 12 halvings come; the time is that of the last fit."""
    low, high, nearest = 1e-3, 1e3, None
    for _ in range(12):
        alpha = float(np.sqrt(low * high))
        seconds, fitted = field.clocked(lambda alpha=alpha: model(alpha).fit(rows))
        count = int((fitted.components_ != 0).sum())
        if count <= k * r and (nearest is None or count >= nearest[2]):
            nearest = seconds, fitted, count
        low, high = (alpha, high) if count > k * r else (low, alpha)
    if nearest is None:
        raise RuntimeError("no penalty gives so few nonzeros")
    return {"seconds": nearest[0], **loss_of(rows, nearest[1].components_)}


def sklearn_sparse(path: str, k: int, r: int) -> field.Answer:
    """``SparsePCA``, its penalty chosen so that it has as many nonzeros."""
    from sklearn.decomposition import SparsePCA

    return by_penalty(lambda alpha: SparsePCA(k, alpha=alpha, random_state=0), field.rows_of(path), k, r)


def sklearn_minibatch(path: str, k: int, r: int) -> field.Answer:
    """``MiniBatchSparsePCA``, its penalty chosen so that it has as many nonzeros."""
    from sklearn.decomposition import MiniBatchSparsePCA

    return by_penalty(lambda alpha: MiniBatchSparsePCA(k, alpha=alpha, random_state=0), field.rows_of(path), k, r)


def xeofs_sparse(path: str, k: int, r: int) -> field.Answer:
    """``xeofs.single.SparsePCA``, its penalty chosen so that it has as many nonzeros."""
    import xarray as xr
    import xeofs

    rows = field.rows_of(path)
    n, d = rows.shape  # xeofs looks dimensions up by their coordinates
    grid = xr.DataArray(rows, dims=("time", "place"), coords={"time": np.arange(n), "place": np.arange(d)})

    @dataclass
    class Model:
        alpha: float

        def fit(self, _: field.Floats) -> "Model":
            model = xeofs.single.SparsePCA(n_modes=k, alpha=self.alpha, random_state=0, center=True)
            model.fit(grid, dim="time")
            self.components_ = model.components().transpose("mode", "place").values
            return self

    return by_penalty(Model, rows, k, r)


TOOLS: dict[str, Callable[[str, int, int], field.Answer]] = {
    OURS: field.ours,
    "SparsePCA, scikit-learn": sklearn_sparse,
    "MiniBatchSparsePCA, scikit-learn": sklearn_minibatch,
    "SparsePCA, xeofs": xeofs_sparse,
}
HEAD = ("rows x columns", "tool", "loss / PCA's", "nonzeros a component", "one fit", "peak memory", "note")

METHOD = f"""
Five components of {R} nonzeros on rows that mix eight factors with noise, float32. *Loss / PCA's* is the squared error
of the best linear reconstruction from the codes, over that of PCA with five components; 1 is the least. The other tools
take a penalty and no number of nonzeros. For them the benchmark tries 12 penalties and keeps the one nearest to {K * R}
nonzeros from below. The seconds are those of that one fit, without the search and imports. Each tool runs in a process
of its own, which ends after {LIMIT:.0f} seconds, search and imports included. Peak memory includes libraries. A tool
that did not end in time is not tried on larger data.
"""


@dataclass(frozen=True)
class Run:
    """One tool on one size; None where it was not tried."""

    rows: int
    columns: int
    tool: str
    watched: Watched | None

    @property
    def ratio(self) -> float | None:
        """Loss over PCA's."""
        answer = self.watched and self.watched.answer
        return float(answer["ratio"]) if answer else None

    @property
    def seconds(self) -> float | None:
        """Time of one fit."""
        answer = self.watched and self.watched.answer
        return float(answer["seconds"]) if answer else None

    def cells(self) -> list[str]:
        """Texts of the table."""
        size = f"{self.rows:,} x {self.columns:,}"
        if self.watched is None:
            return [size, self.tool, "", "", "", "", "not tried"]
        if self.watched.answer is None:
            return [size, self.tool, "", "", "", "", self.watched.failure.replace("|", "/")]
        answer, memory = self.watched.answer, f"{self.watched.together_nbytes >> 20:,} MiB"
        nonzeros, seconds = f"{answer['nonzeros']:.3g}", f"{answer['seconds']:.2f} s"
        return [size, self.tool, f"{answer['ratio']:.5f}", nonzeros, seconds, memory, ""]


def run(sizes: Sequence[tuple[int, int]], scratch: Path, look: Callable[..., Watched] = watch) -> list[Run]:
    """All tools on all sizes, each until it fails."""
    done: list[Run] = []
    ended: set[str] = set()
    for rows, columns in sizes:
        path = field.dense_rows(rows, columns)(scratch)
        for tool in TOOLS:
            watched = None
            if tool not in ended:
                watched = look("benchmarks.head_to_head.sparse_pca", ["--child", tool, str(path)], LIMIT)
            if watched is not None and watched.answer is None:
                ended.add(tool)
            done.append(Run(rows, columns, tool, watched))
            print(" | ".join(done[-1].cells()), flush=True)
    return done


def verdict(runs: Sequence[Run]) -> str:
    """Say who loses least, who is fastest, and the largest data that each tool ends."""
    sizes = list(dict.fromkeys((each.rows, each.columns) for each in runs))
    shared, least, fastest = 0, 0, 0
    for size in sizes:
        ratios = {r.tool: r.ratio for r in runs if (r.rows, r.columns) == size and r.ratio is not None}
        seconds = {r.tool: r.seconds for r in runs if (r.rows, r.columns) == size and r.seconds is not None}
        if OURS in ratios and len(ratios) > 1:
            shared += 1
            least += OURS in best(ratios, 5)
            fastest += OURS in best(seconds, 2)
    last = {
        tool: next((f"{r.columns:,}" for r in reversed(runs) if r.tool == tool and r.ratio is not None), "none")
        for tool in TOOLS
    }
    ends = ", ".join(f"{columns} by {tool}" for tool, columns in last.items())
    return (
        f"{OURS} has the least loss in {least} and the shortest fit in {fastest} of the {shared} sizes that another "
        f"tool ends too; the most columns within {LIMIT:.0f} seconds are {ends}."
    )


def picture(runs: Sequence[Run]) -> Figure:
    """Loss and time of one fit against columns."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    for tool, colour in zip(TOOLS, COLOURS, strict=False):
        ended = [r for r in runs if r.tool == tool and r.ratio is not None]
        columns = [r.columns for r in ended]
        left.plot(columns, [100 * ((r.ratio or 1) - 1) for r in ended], "o-", color=colour, label=tool)
        right.plot(columns, [r.seconds or 0 for r in ended], "o-", color=colour)
    for axes, label in ((left, "loss beyond PCA's, %"), (right, "seconds of one fit")):
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("columns")
        axes.set_ylabel(label)
        axes.spines[["top", "right"]].set_visible(False)
    left.legend(frameon=False, fontsize=8)
    return figure


def main(argv: Sequence[str] | None = None) -> None:
    """Run the comparison and write its page, or run one tool."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--child", nargs=2, metavar=("TOOL", "PATH"), help=argparse.SUPPRESS)
    given = parser.parse_args(argv)
    if given.child:
        tool, path = given.child
        print(json.dumps(TOOLS[tool](path, K, R)))
        return
    with tempfile.TemporaryDirectory(prefix="spae-head-to-head-") as scratch:
        runs = run(SIZES, Path(scratch))
    page = Page(
        "sparse_pca",
        "Sparse PCA in memory",
        verdict(runs),
        METHOD,
        [(HEAD, [each.cells() for each in runs])],
        ("scikit-learn", "xeofs"),
    )
    page.write(picture(runs))


if __name__ == "__main__":
    main()
