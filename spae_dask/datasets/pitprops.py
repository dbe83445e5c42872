"""PitProps: the correlation matrix on which sparse PCA has been compared since 2003.

Thirteen physical measurements of 180 pit props (the timber that holds up a mine's roof) cut from Corsican pine.
Only the correlations were ever published: J. N. R. Jeffers, *Two case studies in the application of principal
component analysis*, Applied Statistics 16 (1967), 225-236.

``pitprops.csv`` beside this file holds them to the printed three decimals, variable names in the first row and
column. The numbers equal those of the R package elasticnet 1.3, of the MATLAB package TPower 1.0 and of two
independent transcriptions, entry for entry; copies with other values in the ``diaknot`` row are in circulation.
The matrix is symmetric with unit diagonal, has rank 13, and its largest eigenvalues are 4.2186, 2.3781 and 1.8782.
"""

import csv
from importlib.resources import files

import numpy as np
import numpy.typing as npt


def load_pitprops() -> tuple[npt.NDArray[np.float64], tuple[str, ...]]:
    """Load the PitProps correlation matrix.

    Returns
    -------
    correlation : ndarray (13, 13)
        Correlations of the thirteen variables; positive definite.
    names : tuple of str
        Names of the variables, in the order of the rows and columns.

    Examples
    --------
    >>> correlation, names = load_pitprops()
    >>> names[:3]
    ('topdiam', 'length', 'moist')
    >>> float(correlation[0, 1])
    0.954
    """
    text = files("spae_dask.datasets").joinpath("pitprops.csv").read_text(encoding="utf-8")
    header, *rows = csv.reader(text.splitlines())
    correlation = np.array([row[1:] for row in rows], dtype=np.float64)
    return correlation, tuple(header[1:])
