"""Mergeable summaries of X, one statistic a file.

Every quantity the method needs from X is a small summary that can be built block by block and merged. See
``DESIGN.md`` in this folder for the laws each one keeps.
"""

from spae_dask.accumulators.base import Accumulator, State
from spae_dask.accumulators.cross import CrossProducts, Products
from spae_dask.accumulators.frequent import FrequentDirections, FrequentSketch
from spae_dask.accumulators.gram import Gram, Scatter
from spae_dask.accumulators.imputed import Imputed
from spae_dask.accumulators.kept import Kept
from spae_dask.accumulators.moments import ColumnMoments, Moments
from spae_dask.accumulators.nonfinite import NonFinite, NonFiniteEntries
from spae_dask.accumulators.projection import ProjectedRows, Projection
from spae_dask.accumulators.residual import Residual, ResidualSums
from spae_dask.accumulators.row_pool import PooledRows, RowPool
from spae_dask.accumulators.row_sketch import RowSketch, SketchedRows
from spae_dask.accumulators.sparse import SparseAccumulator
from spae_dask.accumulators.together import Together
from spae_dask.accumulators.triangular import CenteredTriangle, Triangular
from spae_dask.accumulators.unit_losses import UnitLosses, UnitSums
from spae_dask.accumulators.whole_rows import WholeRows

__all__ = [
    "Accumulator",
    "CenteredTriangle",
    "ColumnMoments",
    "CrossProducts",
    "FrequentDirections",
    "FrequentSketch",
    "Gram",
    "Imputed",
    "Kept",
    "Moments",
    "NonFinite",
    "NonFiniteEntries",
    "PooledRows",
    "Products",
    "ProjectedRows",
    "Projection",
    "Residual",
    "ResidualSums",
    "RowPool",
    "RowSketch",
    "Scatter",
    "SketchedRows",
    "SparseAccumulator",
    "State",
    "Together",
    "Triangular",
    "UnitLosses",
    "UnitSums",
    "WholeRows",
]
