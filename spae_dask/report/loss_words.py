"""A certificate in words, for readers who have not met one before."""

import math

from spae_dask.report.encoder_results import EncoderResults
from spae_dask.report.html import Markup, filled, joined, number
from spae_dask.strategies.certificate import EXACT_SUMS, WORTH_SAYING, Certificate


def share_of(loss: float, certificate: Certificate) -> Markup:
    """A loss as a percentage of the total."""
    value = loss / certificate.total if certificate.total > 0 else 0.0
    return number(value, f"{value:.3%}")


def headline(results: EncoderResults) -> Markup:
    """Describe the encoder and its loss in two or three sentences."""
    c = results.certificate
    made = filled(
        "Each row becomes {} {}, computed from {} of its {} features",
        c.n_components,
        "number" if c.n_components == 1 else "numbers",
        number(results.selected.size, f"{results.selected.size:,}"),
        f"{results.n_features:,}",
    )
    if c.total <= 0:
        return filled("{}: the data have no {}, so nothing is lost.", made, results.what)
    kept = filled(
        "They explain {} of the {}, PCA explains {}",
        number(c.explained, f"{c.explained:.2%}"),
        results.what,
        number(c.pca_explained, f"{c.pca_explained:.2%}"),
    )
    return joined(filled("{}. {}. {}", made, kept, _against_pca(c)), _how_sure(c))


def _against_pca(c: Certificate) -> Markup:
    if not math.isfinite(c.ratio):
        return filled(
            "The same number of codes made of all features loses nothing. This encoder loses {}.", share_of(c.loss, c)
        )
    if c.pca_loss <= 0:
        return filled("They lose only rounding errors, and no encoder can lose less.")
    return filled(
        "Their loss is {} times PCA's loss with all features, the least possible loss of any {}: {} "
        "more. The gap to PCA is {} of the total, and {} of what PCA explains is kept.{}",
        number(c.ratio, f"{c.ratio:.4f}"),
        "linear code" if c.n_components == 1 else f"{c.n_components} linear codes",
        number(c.ratio - 1, f"{c.ratio - 1:.2%}"),
        number(c.explained_gap, f"{c.explained_gap:.2%}"),
        number(c.explained_of_pca, f"{c.explained_of_pca:.2%}"),
        c.left_to_choose() and f" {c.left_to_choose()}",
    )


def _how_sure(c: Certificate) -> Markup:
    if c.loss_kind == "estimate":
        return filled("These are estimates from {} of the rows.", number(c.fraction_read, f"{c.fraction_read:.1%}"))
    if c.loss_kind == "approximate":
        return filled("Both were computed from all rows. Rounding may have changed them, within the bounds below.")
    if c.loss_kind != "exact":
        return filled("These are estimates; the bounds below are certain.")
    if c.pca_loss_kind == "exact":
        return filled("Both losses are exact: all rows were used, not a sample.")
    if c.pca_loss_kind == "estimate":
        return filled("The encoder's loss is exact. PCA's loss is an estimate between certain bounds.")
    return filled(
        "The encoder's loss is exact. PCA's loss is a certain lower bound, so the encoder may do even better than this."
    )


def loss_facts(results: EncoderResults) -> list[tuple[str, Markup | str]]:
    """List the facts about each loss: its value and evidence, the bound promised by theory, and the target."""
    c = results.certificate
    facts: list[tuple[str, Markup | str]] = [("the encoder's loss", _own(c)), ("PCA's loss", _pca(c))]
    if c.ratio_lower is not None and c.ratio_upper is not None:
        lower, upper = _times(c.ratio_lower), _times(c.ratio_upper)
        ends = lower if _alike(lower, upper) else filled("{} to {}", lower, upper)
        facts.append(
            (
                "their ratio",
                filled(
                    "{} on all rows, with {} confidence, if all row blocks have the same distribution", ends, _chance(c)
                ),
            )
        )
    if c.left_to_choose():
        facts.append(("left to gain", c.left_to_choose()))
    facts.append(("promised beforehand", _promise(c)))
    if c.loss_error > WORTH_SAYING * c.loss > 0:
        facts.append(
            ("rounding", filled("changes both losses by {} of the total at most", _small(c.loss_error / c.total)))
        )
    if c.pca_share is not None:
        facts.append(
            (
                "components",
                f"{c.n_components}, the fewest with which PCA explains more than {c.pca_share:.6g} of the total",
            )
        )
    if c.total_weight is not None:
        facts.append(("row weights", f"Losses are weighted sums over rows. The weights sum to {c.total_weight:.6g}."))
    if c.exact_sums:
        facts.append(("sums", EXACT_SUMS))
    if c.n_left_out:
        facts.append(("left out", _left_out(c)))
    if c.missing_chunks is not None:
        facts.append(("not stored", c.missing_chunks))
    if c.target is not None:
        facts.append(("asked for", _asked(c)))
    if c.left_to_gain is not None:
        gain = number(c.left_to_gain, f"{c.left_to_gain:.4f}")
        facts.append(
            ("left unread", filled("an encoder fitted on all rows could reduce the ratio by at most {}", gain))
        )
    facts.append(
        (
            "symmetric variance",
            filled(
                "{} of PCA's: the variance within the span of the codes, the measure of the older literature",
                number(c.symmetric_ratio, f"{c.symmetric_ratio:.2%}"),
            ),
        )
    )
    return facts


def _own(c: Certificate) -> Markup:
    loss = filled("{} of the total", share_of(c.loss, c))
    if c.loss_kind == "exact" or c.loss_lower is None or c.loss_upper is None:
        return filled("{}, exact" if c.loss_kind == "exact" else "{}, an estimate", loss)
    return _estimated(loss, share_of(c.loss_lower, c), share_of(c.loss_upper, c), c)


def _pca(c: Certificate) -> Markup:
    loss = filled("{} of the total", share_of(c.pca_loss, c))
    if c.pca_loss_kind == "exact":
        return filled("{}, exact", loss)
    lower, upper = c.pca_loss_lower, c.pca_loss_upper
    if c.pca_loss_kind == "certified lower bound":
        if upper is not None and _alike(share_of(c.pca_loss, c), share_of(upper, c)):
            return filled("{}, certain", loss)
        most = "" if upper is None else filled(", and no more than {}", share_of(upper, c))
        return filled("certain to be no less than {}{}", loss, most)
    if lower is None or upper is None:
        return filled("{}, an estimate", loss)
    return _estimated(loss, share_of(lower, c), share_of(upper, c), c)


def _alike(lower: Markup, upper: Markup) -> bool:
    """Return True if the ends of an interval print the same, so that it reads as a number."""
    return lower.striptags() == upper.striptags()


def _estimated(loss: Markup, lower: Markup, upper: Markup, c: Certificate) -> Markup:
    ends = lower if _alike(lower, upper) else filled("between {} and {}", lower, upper)
    if c.confidence is not None:
        return filled("{}, an estimate; {} with {} confidence", loss, ends, _chance(c))
    return filled("{}, an estimate; certain to {} {}", loss, "be" if ends is lower else "lie", ends)


def _promise(c: Certificate) -> Markup:
    if c.bound is None:
        return filled("no bound on the ratio: {}", c.theorem.removeprefix("No bound: "))
    return filled(
        "theory bounds the ratio by {} {} ({}); measured is {}",
        _times(c.bound),
        "for any data" if c.decoder_ratio is None else "with a decoder made of rows",
        c.theorem,
        _times(c.ratio if c.decoder_ratio is None else c.decoder_ratio),
    )


def _left_out(c: Certificate) -> Markup:
    return filled(
        "{} columns whose variation is at most the rounding of their entries, {} of the total",
        c.n_left_out,
        _small(c.left_out / max(c.total, c.left_out)),
    )


def _asked(c: Certificate) -> Markup:
    goal = (
        filled("lose at most {} more than PCA", number(c.eps or 0.0, f"{c.eps:.4g}"))
        if c.keep is None
        else filled("keep {} of what PCA explains", number(c.keep, f"{c.keep:.4g}"))
    )
    enough = {True: "were enough", False: "were not enough", None: "were enough by the estimate, not for certain"}
    wanted = filled("the fewest features per component found that {}: {} {}", goal, c.n_nonzero, enough[c.target_met])
    if c.theory_n_nonzero is None:
        return wanted
    return filled("{}; theory would need {}", wanted, f"{c.theory_n_nonzero:,}")


def _chance(c: Certificate) -> str:
    return "unknown" if c.confidence is None else f"{c.confidence:.0%}"


def _times(value: float) -> Markup:
    return number(value, f"{value:.4g}" if value >= 10 else f"{value:.4f}")


def _small(value: float) -> Markup:
    return number(value, f"{value:.1g}")
