"""Claims of certificates against 80-bit truth: tried and violated, by kind of data and by strategy.

Run ``python -m benchmarks.certificates`` (minutes); with ``--markdown`` it writes certificates.md. ``--seeds N`` makes
N fits for each kind of data and each strategy.
"""

import argparse
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.machine import describe_machine
from spae_dask import SparseEncoder
from spae_dask.errors import ImpossibleCertificate, InvalidInput, SpaeWarning
from tests.certified import PLANTS, STRATEGIES, Truth, claims, strain

HERE = Path(__file__).parent

COUNTED = ("fits", "refused", "claims", "violated", "approximate", "one more read")
"""Columns of the tables."""


def tried(plant: str, strategy: str, seed: int) -> Counter[str]:
    """Numbers of one fit."""
    case = strain(plant, strategy, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SpaeWarning)
        try:
            encoder: Any = SparseEncoder(**case.parameters).fit(case.X)
        except InvalidInput:
            return Counter({"fits": 1, "refused": 1})
        except ImpossibleCertificate:
            return Counter({"fits": 1, "claims": 1, "violated": 1})
    found = claims(Truth(case.dense, encoder), encoder.certificate_)
    return Counter(
        {
            "fits": 1,
            "claims": len(found),
            "violated": sum(not claim.holds for claim in found),
            "approximate": int(encoder.certificate_.loss_kind == "approximate"),
            "one more read": int(encoder.certificate_.summed_over_rows),
        }
    )


def table(head: str, rows: dict[str, Counter[str]]) -> list[str]:
    """Markdown lines, one row a name, and the sum of all."""
    lines = [f"| {' | '.join((head, *COUNTED))} |", "|---" * (1 + len(COUNTED)) + "|"]
    everything = sum(rows.values(), Counter())
    for name, counts in [*rows.items(), ("all", everything)]:
        lines.append(f"| {' | '.join((name, *(str(counts[each]) for each in COUNTED)))} |")
    return lines


def document(tables: Sequence[str], seeds: int) -> str:
    """Text of certificates.md."""
    machine = "\n".join(f"- {line}" for line in describe_machine())
    body = "\n".join(tables)
    return f"""# Claims of certificates

`python -m benchmarks.certificates --seeds {seeds} --markdown` wrote this file. Each fit uses small data that are
hard on rounding: near-copies, large means, units from 1e-70 to 1e70, 64-bit integers beyond 2^53, stray rows, low
rank. Types, numbers of components, methods, precisions, scaling, centering and missing entries vary with the seed.
The truth is computed in 80-bit arithmetic from the returned encoder, decoder and mean. A claim is an interval that
the certificate calls certain: of the loss, of PCA's loss, or of their ratio. Estimates of a sample are not claims;
`coverage.md` covers them.

*Approximate* fits are those whose certificate says that rounding may move the loss by more than 1e-4 of PCA's.
*One more read* counts the fits that summed the residuals of the rows because their core was not accurate enough.

{machine}

{body}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--markdown", action="store_true", help="write certificates.md")
    given = parser.parse_args()
    by_plant: dict[str, Counter[str]] = {plant: Counter() for plant in PLANTS}
    by_strategy: dict[str, Counter[str]] = {strategy: Counter() for strategy in STRATEGIES}
    for seed in range(given.seeds):
        for plant in PLANTS:
            for strategy in STRATEGIES:
                counts = tried(plant, strategy, seed)
                by_plant[plant] += counts
                by_strategy[strategy] += counts
    tables = [*table("data", by_plant), "", *table("strategy", by_strategy)]
    print("\n".join(tables))
    if given.markdown:
        (HERE / "certificates.md").write_text(document(tables, given.seeds))


if __name__ == "__main__":
    main()
