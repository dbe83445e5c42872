"""Mergeable summaries of X, one statistic a file.

Every quantity the method needs from X is a small summary that can be built block by block and merged. See
``DESIGN.md`` in this folder for the laws each one keeps.
"""

from spae_dask.passes.accumulators.base import Accumulator, State
from spae_dask.passes.accumulators.clipped_squares import ClippedSquares
from spae_dask.passes.accumulators.covariates import Adjusted, Beside, CovariateProducts
from spae_dask.passes.accumulators.cross import CrossProducts, Products
from spae_dask.passes.accumulators.folded import Folded, FoldedByNumber, FoldStates, RowFolds
from spae_dask.passes.accumulators.frequent import FrequentDirections, FrequentSketch
from spae_dask.passes.accumulators.gram import Gram, Scatter
from spae_dask.passes.accumulators.integer_gram import IntegerGram, integer_gram
from spae_dask.passes.accumulators.moments import ColumnMoments, Moments
from spae_dask.passes.accumulators.nonfinite import NonFinite, NonFiniteEntries
from spae_dask.passes.accumulators.parted import Cut, Parted, PartedResult, PartedSquares
from spae_dask.passes.accumulators.projection import ProjectedRows, Projection
from spae_dask.passes.accumulators.residual import Residual, ResidualSums
from spae_dask.passes.accumulators.row_pool import PooledRows, RowPool
from spae_dask.passes.accumulators.row_sketch import RowSketch, SketchedRows
from spae_dask.passes.accumulators.row_totals import MedianSum, RowSummary, RowTotals
from spae_dask.passes.accumulators.sparse import SparseAccumulator
from spae_dask.passes.accumulators.together import Together
from spae_dask.passes.accumulators.triangular import CenteredTriangle, Triangular
from spae_dask.passes.accumulators.unit_losses import UnitLosses, UnitSums
from spae_dask.passes.accumulators.weighted import RowWeights, Weighted, all_weighted, weighing, weighted
from spae_dask.passes.accumulators.whole_rows import WholeRows
from spae_dask.passes.accumulators.wrapped import Imputed, Kept

__all__ = [
    "Accumulator",
    "Adjusted",
    "Beside",
    "CenteredTriangle",
    "ClippedSquares",
    "ColumnMoments",
    "CovariateProducts",
    "CrossProducts",
    "Cut",
    "FoldStates",
    "Folded",
    "FoldedByNumber",
    "FrequentDirections",
    "FrequentSketch",
    "Gram",
    "Imputed",
    "IntegerGram",
    "Kept",
    "MedianSum",
    "Moments",
    "NonFinite",
    "NonFiniteEntries",
    "Parted",
    "PartedResult",
    "PartedSquares",
    "PooledRows",
    "Products",
    "ProjectedRows",
    "Projection",
    "Residual",
    "ResidualSums",
    "RowFolds",
    "RowPool",
    "RowSketch",
    "RowSummary",
    "RowTotals",
    "RowWeights",
    "Scatter",
    "SketchedRows",
    "SparseAccumulator",
    "State",
    "Together",
    "Triangular",
    "UnitLosses",
    "UnitSums",
    "Weighted",
    "WholeRows",
    "all_weighted",
    "integer_gram",
    "weighing",
    "weighted",
]
