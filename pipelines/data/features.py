"""A table of features with a header: 569 tumours by 30 measurements of cell nuclei (Wolberg, Street and Mangasarian).

It is part of scikit-learn, and real in the way tables are: the measurements have different units and spreads, and many
say nearly the same. Rows are shuffled, and 169 are held out; the diagnosis is left out.

    python pipelines/data/features.py           # writes made/features.csv and made/features_new.csv beside this file

W. N. Street, W. H. Wolberg and O. L. Mangasarian, *Nuclear feature extraction for breast tumor diagnosis*, Proc. SPIE
1905 (1993), 861-870.
"""

from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer

MADE = Path(__file__).parent / "made"

FITTED = 400
"""Rows that are not held out."""


def make(folder: Path = MADE) -> None:
    """Write the rows to fit and those held out."""
    stored = load_breast_cancer()
    order = np.random.default_rng(0).permutation(len(stored.data))
    folder.mkdir(parents=True, exist_ok=True)
    for name, chosen in (("features.csv", order[:FITTED]), ("features_new.csv", order[FITTED:])):
        header = ",".join(stored.feature_names)
        np.savetxt(folder / name, stored.data[chosen], fmt="%.7g", delimiter=",", header=header, comments="")


if __name__ == "__main__":
    make()
