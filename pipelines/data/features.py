"""A table as Parquet: 569 tumours by 30 measurements of cell nuclei, and their diagnosis (Street and others, 1993).

It is part of scikit-learn, and real in the way tables are: the measurements have different units and spreads, and many
say nearly the same. The diagnosis is text, which an encoder cannot take. Rows are shuffled, and 169 are held out.

    python pipelines/data/features.py           # writes made/features.parquet, features_new.parquet beside this file

W. N. Street, W. H. Wolberg and O. L. Mangasarian, *Nuclear feature extraction for breast tumor diagnosis*, Proc. SPIE
1905 (1993), 861-870.
"""

from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer

MADE = Path(__file__).parent / "made"

FITTED = 400
"""Rows that are not held out."""


def make(folder: Path = MADE) -> None:
    """Write the rows to fit and those held out."""
    stored = load_breast_cancer()
    table = pd.DataFrame(stored.data, columns=stored.feature_names)
    table.insert(0, "diagnosis", stored.target_names[stored.target])
    order = np.random.default_rng(0).permutation(len(table))
    folder.mkdir(parents=True, exist_ok=True)
    for name, chosen in (("features.parquet", order[:FITTED]), ("features_new.parquet", order[FITTED:])):
        table.iloc[chosen].to_parquet(folder / name, index=False, row_group_size=100)


if __name__ == "__main__":
    make()
