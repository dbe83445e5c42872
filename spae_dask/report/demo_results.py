"""Results of a demo, for its page."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from spae_dask.datasets.indian_pines import IndianPines
from spae_dask.passes.plan import Plan
from spae_dask.report.sections import Step
from spae_dask.report.spectral_image import DensePCA
from spae_dask.strategies.certificate import Certificate

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class DemoResults:
    """All results that the page shows.

    Attributes
    ----------
    data : IndianPines
        The image.
    in_training : ndarray (h, w) of bool
        Pixels the encoder was fitted on; the others were held out.
    side : int
        Side of the squares of the split, in pixels.
    training, held_out : Certificate
        Losses on either part.
    plan : Plan
        Plan of the fit.
    components, explained, spectrum : ndarray (k, d), (k,), (min(n, d),)
        Components, explained shares and singular values of the fitted encoder.
    decoded : ndarray (h, w, d)
        The whole image, from its codes.
    pca : DensePCA
        Fitted on the training pixels.
    steps : sequence of Step
        Commands that the demo ran.
    peak_nbytes : int
        Peak memory of the process.
    facts : sequence of (str, str)
        Provenance.
    commands : sequence of str
        Commands that repeat the demo.
    """

    data: IndianPines
    in_training: npt.NDArray[np.bool_]
    side: int
    training: Certificate
    held_out: Certificate
    plan: Plan
    components: Floats
    explained: Floats
    spectrum: Floats
    decoded: Floats
    pca: DensePCA
    steps: Sequence[Step]
    peak_nbytes: int
    facts: Sequence[tuple[str, str]]
    commands: Sequence[str]

    @property
    def selected(self) -> npt.NDArray[np.intp]:
        """Bands any component uses, ascending."""
        return np.flatnonzero(self.components.any(axis=0))
