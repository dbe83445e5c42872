"""Gene panels of Spapros, its reference selections and spae_dask, by Spapros' own evaluator.

Run ``python -m benchmarks.head_to_head.gene_panels`` in the environment of ``make head-to-head``.
"""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from benchmarks.head_to_head.pages import COLOURS, OURS, Page, wins
from spae_dask import ColumnSelector, SparseEncoder

SIZES = (20, 50)
N_COMPONENTS = 20
SELECTOR = f"{OURS} ColumnSelector"
LABELS = "bulk_labels"

METRICS = {
    "knn_overlap mean_overlap_AUC": "knn overlap",
    "cluster_similarity nmi_5_20": "NMI, 5 to 20 clusters",
    "cluster_similarity nmi_21_60": "NMI, 21 to 60 clusters",
    "forest_clfs accuracy": "forest accuracy",
    "gene_corr 1 - mean": "1 - mean correlation",
}
"""Columns of the evaluator's summary, and of the table; more is better in each."""

KNN, FOREST = "knn overlap", "forest accuracy"
AIM, MARGIN = 1.2, 0.01
"""Overlap over the best of the others', and the accuracy that may be missing for it."""

METHOD = f"""
Data: `pbmc68k_reduced` of scanpy, 700 cells and 765 genes, log-normalized counts, cell types `{LABELS}`. All metrics
are those of `ProbesetEvaluator` of Spapros at its defaults. More is better in each. *Knn overlap* is the share of each
cell's nearest neighbours by all genes that are also its neighbours by the panel. *NMI* compares clusterings by all
genes and by the panel. *Forest accuracy* is the mean accuracy of boosted trees over cell types of 40 cells and more.
*1 - mean correlation* says how little the genes of a panel repeat each other.

Spapros and DE see the cell types. PCA, HVG and spae_dask do not. spae_dask chooses a panel of n genes for
{N_COMPONENTS} components, `SparseEncoder({N_COMPONENTS}, n_features=n)`; `ColumnSelector(n)` has its defaults. The
evaluator and the selections run once, with seed 0.
"""

Scores = Mapping[str, Mapping[str, float]]
"""Metrics of each tool."""


def data() -> Any:
    """Return the cells with log-normalized counts and nothing else."""
    import scanpy

    cells = scanpy.datasets.pbmc68k_reduced().raw.to_adata()
    cells.X = cells.X.toarray()
    del cells.uns, cells.obsp, cells.obsm, cells.varm
    cells.var["highly_variable"] = True  # the data set holds variable genes alone
    return cells


def ranked(cells: Any, n: int) -> list[str]:
    """Rank the first n genes of Spapros: it makes one ranking for all n and cuts it."""
    from spapros import se

    selector = se.ProbesetSelector(cells, celltype_key=LABELS, n=n, verbosity=0, seed=0, n_jobs=1)
    selector.select_probeset()
    found = selector.probeset
    return list(found[found["selection"]].sort_values("gene_nr").index)


def panels(cells: Any, n: int, spapros: Sequence[str]) -> dict[str, list[str]]:
    """Choose n genes by each tool; those of Spapros are the first of its ranking."""
    from spapros import se

    names = np.asarray(cells.var_names)
    X = np.asarray(cells.X, dtype=np.float64)
    encoder = SparseEncoder(N_COMPONENTS, n_features=n).fit(X)
    chosen = {
        OURS: list(names[encoder.components_.any(axis=0)]),
        SELECTOR: list(names[ColumnSelector(n).fit(X).get_support()]),
        "Spapros": list(spapros[:n]),
    }
    methods = ["PCA", "DE", "HVG"]
    references = se.select_reference_probesets(cells.copy(), n, obs_key=LABELS, methods=methods, verbosity=0)
    return chosen | {tool: list(table.index[table["selection"]]) for tool, table in references.items()}


def evaluate(cells: Any, chosen: Mapping[int, Mapping[str, list[str]]]) -> dict[int, Scores]:
    """Metrics of all panels, by size."""
    from spapros import ev

    evaluator = ev.ProbesetEvaluator(cells, celltype_key=LABELS, results_dir=None, scheme="full", verbosity=0, n_jobs=1)
    names = {f"{tool}, {n} genes": (n, tool) for n, tools in chosen.items() for tool in tools}
    for name, (n, tool) in names.items():
        evaluator.evaluate_probeset(chosen[n][tool], set_id=name)
    summary = evaluator.summary_results
    return {n: scores_of({tool: summary.loc[f"{tool}, {n} genes"] for tool in tools}) for n, tools in chosen.items()}


def scores_of(summary: Mapping[str, Mapping[str, float]]) -> Scores:
    """Metrics of the table from a summary of the evaluator; a missing one is an error."""
    return {tool: {shown: float(row[name]) for name, shown in METRICS.items()} for tool, row in summary.items()}


def rows(n: int, scores: Scores) -> list[list[str]]:
    """Rows of the table for one size."""
    return [[f"{n}", tool, *(f"{found[metric]:.3f}" for metric in METRICS.values())] for tool, found in scores.items()]


def verdict(found: Mapping[int, Scores]) -> str:
    """Say who wins how many metrics, and whether the aim is met at each size."""
    cases = [{tool: each[metric] for tool, each in s.items()} for s in found.values() for metric in METRICS.values()]
    aims = []
    for n, scores in found.items():
        others = [each for tool, each in scores.items() if not tool.startswith(OURS)]
        gain = scores[OURS][KNN] / max(each[KNN] for each in others)
        more = scores[OURS][FOREST] - max(each[FOREST] for each in others)
        met = "met" if gain >= AIM and more >= -MARGIN else "not met"
        aims.append(
            f"{gain:.2f} times their best knn overlap and {more:+.3f} of their best accuracy at {n} genes ({met})"
        )
    return (
        f"Best metrics: {wins(cases, 3, largest=True)}; {OURS} has {' and '.join(aims)}, where the aim is {AIM} times "
        f"and at least {-MARGIN}."
    )


def picture(found: Mapping[int, Scores]) -> Figure:
    """Bars of each metric, one panel for each size."""
    figure = Figure(figsize=(11, 3.8), layout="constrained")
    for axes, (n, scores) in zip(np.atleast_1d(figure.subplots(1, len(found))), found.items(), strict=True):
        width = 0.8 / len(scores)
        for i, ((tool, each), colour) in enumerate(zip(scores.items(), COLOURS, strict=False)):
            places = np.arange(len(METRICS)) + i * width
            axes.bar(places, [each[metric] for metric in METRICS.values()], width, color=colour, label=tool)
        axes.set_xticks(np.arange(len(METRICS)) + 0.4, [m.replace(", ", "\n") for m in METRICS.values()], fontsize=7)
        axes.set_title(f"{n} genes", loc="left", fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside upper right", ncols=6, frameon=False)
    return figure


def main() -> None:
    """Run the comparison and write its page."""
    warnings.simplefilter("ignore")  # scanpy, Spapros and their libraries warn of each other's coming changes
    cells = data()
    spapros = ranked(cells.copy(), max(SIZES))  # it makes the matrix of its cells sparse
    found = evaluate(cells, {n: panels(cells, n, spapros) for n in SIZES})
    table: Sequence[list[str]] = [row for n, scores in found.items() for row in rows(n, scores)]
    page = Page(
        "gene_panels",
        "Gene panels",
        verdict(found),
        METHOD,
        [(("genes", "panel", *METRICS.values()), table)],
        ("spapros", "scanpy", "anndata", "xgboost"),
    )
    page.write(picture(found))


if __name__ == "__main__":
    main()
