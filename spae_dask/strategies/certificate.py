"""The loss of an encoder, and how it is known."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, get_args, get_origin

import numpy as np
import numpy.typing as npt

from spae_dask.errors import ImpossibleCertificate
from spae_dask.flags import flags_checked
from spae_dask.markup import html_table, interval, labelled_lines
from spae_dask.maths.linalg.loss import rounding_error
from spae_dask.quantities import format_nbytes
from spae_dask.strategies.held_out import HeldOut, known_fields
from spae_dask.strategies.metrics import EncoderMetrics
from spae_dask.strategies.parameters import allowed_loss

Floats = npt.NDArray[np.float64]

WORTH_SAYING = 1e-7
"""Share of the loss above which its rounding error is printed."""

NAME_WIDTH = 19
"""Characters of a name in the table for the terminal."""

LEFT_OUT = 1e-14
"""Share of the total above which columns left out as constant to rounding are printed."""

SLACK = 1e-12
"""Share of the total by which numbers may contradict each other beside their stated error."""


EXACT_SUMS = "The sums of the pass are exact integers."
"""Words of a certificate that was made from exact sums."""

LEADING = ("explained", "pca_explained", "ratio", "explained_gap", "explained_of_pca")
"""First entries of a certificate's record: the shares that the encoder and PCA explain, and the gap between them."""

DERIVED = ("pca_explained", "explained_gap", "explained_of_pca", "gain_at_most", "target_met")
"""Entries of the record that follow from the fields."""


@dataclass(frozen=True)
class Certificate:
    """Loss of an encoder H against PCA's, on the data it was computed from.

    Attributes
    ----------
    loss : float
        ``min over G of ||X - X H G||^2``, X centered and scaled as the fit was told.
    pca_loss : float
        ``||X - X_k||^2``, the least any k-dimensional linear encoder can lose.
    ratio : float
        ``loss / pca_loss``, at least 1; the paper calls it information loss. 1.0 if both are zero to rounding.
    pca_loss_kind : str
        ``"exact"``; ``"approximate"``, if rounding may move it by more than 1e-4 of itself; ``"certified lower bound"``
        or ``"estimate"``.
    total : float
        ``||X||^2``.
    explained : float
        ``1 - loss / total``.
    symmetric_explained, symmetric_ratio : float
        ``||X H H^+||^2``, and that over ``||X_k||^2``.
    bound : float or None
        Upper bound on ``ratio`` that a theorem promised before the data were seen; of a doubly sparse encoder, on its
        own decoder's loss over PCA's, before its rows were drawn.
    theorem : str
        Theorem of the bound, marked if the bound holds in expectation only; or the reason for having no bound.
    n_components, n_nonzero : int
        k, and the most nonzeros a component has.
    combined_nonzero : int
        Features that any component uses.
    loss_error : float
        Largest absolute error that rounding can have made in ``loss`` and in an exact ``pca_loss``.
    loss_kind : str
        ``"exact"``; ``"approximate"``, if ``loss_error`` is more than 1e-4 of PCA's loss; ``"certified interval"``,
        if a sketch of all rows bounds the loss; or ``"estimate"``, if not all rows were seen.
    loss_lower, loss_upper : float or None
        Ends of the interval of the loss, where it is not exact.
    summed_over_rows : bool
        True if the loss is a sum of squared residuals of the rows. An evaluation computes it so. A fit computes it so
        with one more read if rounding of the core would leave the loss uncertain.
    exact_sums : bool
        True if the sums of the pass are exact integers, so that only the last steps rounded.
    n_left_out, left_out : int, float
        Columns that were left out because they vary by no more than the rounding of their entries, and their sum of
        squared deviations, which is in no other number but ``loss_error``.
    missing_chunks : str or None
        Chunks of the data that are not stored, and the number that they were read as; None if all are.
    confidence : float or None
        Probability that the interval holds, where it is not certain, assuming blocks are alike: none tells of a block
        that decides everything and was not read.
    pca_loss_lower, pca_loss_upper : float or None
        Bounds on PCA's loss, where ``pca_loss`` is not exact: certified, or with the probability ``confidence``.
    ratio_lower, ratio_upper : float or None
        Ends of the interval of the ratio, where not all rows were seen. Narrower than those of the losses suggest,
        because the two losses rise and fall together.
    fraction_read : float
        Share of the rows seen.
    left_to_gain : float or None
        Largest decrease of the ratio that a fit on all rows may bring; None if all rows were seen.
    passes, bytes_read : int
        Reads of the data, and decoded bytes read in all.
    eps : float or None
        The wanted excess over PCA's loss, if the number of nonzeros was chosen for one.
    theory_n_nonzero, theory_n_nonzero_sharp : int or None
        The nonzeros for which theory promises that excess beforehand, see ``spae_dask.strategies.theory.Target``.
    decoder_loss : float or None
        ``||X - X H G||^2`` with the encoder's own decoder and mean, where an encoder is evaluated on other data or its
        decoder is made of rows of X.
    metrics : EncoderMetrics or None
        All metrics of the encoder, if it is evaluated on other data.
    symmetric_lower, symmetric_upper : float or None
        Between these ``symmetric_ratio`` must be, by the loss alone: see :func:`symmetric_bounds`.
    keep : float or None
        The wanted share of the variance that PCA explains, if the number of nonzeros was chosen for one.
    rows : str or None
        Rows that the certificate holds for, with their weights, if they were added up by updates.
    pca_share : float or None
        Share of the total for which the spectrum chose the number of components: PCA with one less explains no more
        than this. None if the number was given, or chosen by folds.
    total_weight : float or None
        Sum of the weights of the rows; None if rows have no weights. All losses are weighted sums over rows.
    prefix_losses, prefix_bounds : list of float or None
        Losses of the first 1, 2, ... components of an iterative encoder, and the most that the paper's theorem allows.
    held_out : HeldOut or None
        Losses on folds of the rows of encoders of the other folds, and their features; None without folds.
    """

    loss: float
    pca_loss: float
    ratio: float
    pca_loss_kind: str
    total: float
    explained: float
    symmetric_explained: float
    symmetric_ratio: float
    bound: float | None
    theorem: str
    n_components: int
    n_nonzero: int
    combined_nonzero: int
    loss_error: float
    passes: int
    bytes_read: int
    loss_kind: str = "exact"
    loss_lower: float | None = None
    loss_upper: float | None = None
    confidence: float | None = None
    pca_loss_lower: float | None = None
    pca_loss_upper: float | None = None
    eps: float | None = None
    theory_n_nonzero: int | None = None
    theory_n_nonzero_sharp: int | None = None
    ratio_lower: float | None = None
    ratio_upper: float | None = None
    fraction_read: float = 1.0
    left_to_gain: float | None = None
    decoder_loss: float | None = None
    metrics: EncoderMetrics | None = None
    symmetric_lower: float | None = None
    symmetric_upper: float | None = None
    prefix_losses: list[float] | None = None
    prefix_bounds: list[float] | None = None
    summed_over_rows: bool = False
    n_left_out: int = 0
    left_out: float = 0.0
    missing_chunks: str | None = None
    keep: float | None = None
    exact_sums: bool = False
    rows: str | None = None
    held_out: HeldOut | None = None
    total_weight: float | None = None
    pca_share: float | None = None

    def __post_init__(self) -> None:
        """Make numpy's numbers Python's, and refuse those that no matrix allows.

        Raises
        ------
        ImpossibleCertificate
            If two numbers contradict each other by more than rounding.
        """
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, np.generic):
                object.__setattr__(self, each.name, value.item())
        impossible = self._contradiction()
        if impossible is not None:
            raise ImpossibleCertificate(
                f"a certificate contradicts itself: {impossible}. This is a bug of spae_dask. Please report it "
                "with the parameters of the fit, the type and shape of the data, and these numbers: "
                f"{asdict(self)}"
            )

    def _contradiction(self) -> str | None:
        """Two numbers that contradict each other by more than rounding, if there are any."""
        slack = SLACK * max(self.total, self.loss, self.pca_loss) + self.loss_error
        intervals = {
            "loss": (self.loss_lower, self.loss_upper),
            "PCA's loss": (self.pca_loss_lower, self.pca_loss_upper),
            "ratio": (self.ratio_lower, self.ratio_upper),
        }
        for name, (lower, upper) in intervals.items():
            if lower is not None and upper is not None and lower > upper:
                return f"the lower bound of the {name}, {lower!r}, is above the upper bound, {upper!r}"
        if self.loss > self.total + slack:
            return f"the loss, {self.loss!r}, is above the total, {self.total!r}"
        if "estimate" in (self.loss_kind, self.pca_loss_kind):
            return None
        if self.pca_loss > self.loss + slack:
            return f"PCA's loss, {self.pca_loss!r}, is above the loss, {self.loss!r}"
        if (1 - self.ratio) * self.pca_loss > slack:
            return f"the ratio, {self.ratio!r}, is below 1"
        return None

    def as_dict(self) -> dict[str, Any]:
        """The fields by name, for JSON, and what follows from them; shares of what is explained come first."""
        record = {name: getattr(self, name) for name in LEADING} | asdict(self)
        record |= {name: getattr(self, name) for name in DERIVED}
        record |= {"metrics": None if self.metrics is None else self.metrics.as_dict()}
        del record["held_out"]
        return record if self.held_out is None else record | {"held_out": self.held_out.as_dict()}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> "Certificate":
        """The certificate of a fit, from its fields as they were stored. Fields of later versions are ignored.

        Raises
        ------
        TypeError
            If a field is missing, or not of its type.
        """
        record = known_fields(cls, record)
        if isinstance(record.get("held_out"), Mapping):
            record["held_out"] = HeldOut.from_dict(record["held_out"])
        for field in fields(cls):
            allowed = tuple(get_origin(each) or each for each in get_args(field.type) or (field.type,))
            allowed = (*allowed, int) if float in allowed else allowed  # JSON knows one kind of number
            value = record.get(field.name)
            wrong = not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed)
            if field.name in record and wrong:
                raise TypeError(f"its {field.name} is a {type(value).__name__}")
        return cls(**record)

    @property
    def pca_explained(self) -> float:
        """Share of the total that PCA explains with as many components: ``1 - pca_loss / total``."""
        return 1 - self.pca_loss / self.total if self.total > 0 else 0.0

    @property
    def explained_gap(self) -> float:
        """Share of the total that is left to gain: ``pca_explained - explained``, by ``loss`` and ``pca_loss``."""
        return max(self.loss - self.pca_loss, 0.0) / self.total if self.total > 0 else 0.0

    @property
    def explained_of_pca(self) -> float:
        """``explained / pca_explained``; 1 if PCA explains nothing."""
        return (self.total - self.loss) / (self.total - self.pca_loss) if self.total > self.pca_loss else 1.0

    @property
    def gain_at_most(self) -> float | None:
        """Share of the loss that no other choice of features can save more than; None if none below 1 is certain.

        PCA's loss is a lower bound on that of any encoder. Rounding, and the ends of certain intervals, count against
        the encoder.
        """
        unsure = self.confidence is not None or self.loss_kind == "estimate"
        if unsure or (self.pca_loss_kind == "estimate" and self.pca_loss_lower is None):
            return None
        loss = self._ends(self.loss, self.loss_kind, self.loss_lower, self.loss_upper)[1]
        least = self._ends(self.pca_loss, self.pca_loss_kind, self.pca_loss_lower, self.pca_loss_upper)[0]
        loss = (self.loss if math.isinf(loss) else loss) + self.loss_error
        least -= self.loss_error
        return max(0.0, 1.0 - least / loss) if least > 0.0 and loss > 0.0 else None

    def left_to_choose(self) -> str:
        """Sentence that says what a better choice of features could gain; empty if nothing is certain."""
        if self.gain_at_most is None:
            return ""
        bounded = "" if self.pca_loss_kind in ("exact", "approximate") else "By the lower bound on PCA's loss, "
        said = f"no choice of features could lower the loss by more than {_rounded_up(self.gain_at_most)}."
        return bounded + (said if bounded else said.capitalize())

    def __str__(self) -> str:
        """A table for the terminal."""
        return self.text()

    @flags_checked
    def text(self, *, verbose: bool = False) -> str:
        """Make a table for the terminal.

        Parameters
        ----------
        verbose : bool
            True to add the symmetric variance and the bound of the theorem.
        """
        lines = [
            f"explained          {self.explained:.4%} of the total, PCA {self.pca_explained:.4%}"
            f"  ({'' if self.pca_loss_kind == 'exact' else 'by the loss of PCA: '}{self.pca_loss_kind})",
            f"ratio              {self.ratio:.6f} x PCA's loss" + self._excess() + self._ratio_interval(),
            f"left to gain       {self._gap()}",
            f"loss               {self.loss:.6g} of {self.total:.6g}  ({self.explained:.4%} explained)"
            + self._loss_interval()
            + self._summed(),
            f"PCA's loss         {self.pca_loss:.6g}  ({self.pca_loss_kind})",
            f"nonzeros           {self.n_nonzero} a component at most, {self.combined_nonzero} features in "
            f"all, {self.n_components} component{'s' if self.n_components != 1 else ''}",
            f"read               {self.passes} pass{'es' if self.passes != 1 else ''}, {format_nbytes(self.bytes_read)}"
            + self._unread(),
        ]
        if self.prefix_losses is not None and self.prefix_bounds is not None:
            lines.insert(-1, f"prefixes           {self._prefixes(self.prefix_losses, self.prefix_bounds)}")
        if self.loss_error > WORTH_SAYING * self.loss > 0:
            share = self.loss_error / self.loss
            lines.insert(5, f"rounding           of both losses at most {self.loss_error:.2g}, {share:.2g} of the loss")
        if self.n_left_out and self.left_out > LEFT_OUT * self.total:
            lines.insert(
                5,
                f"left out           {self.n_left_out} columns constant to rounding, "
                f"with {self.left_out:.3g}, {self.left_out / max(self.total, self.left_out):.2g} of the total",
            )
        if self.rows is not None:
            lines.append(f"rows               {self.rows}")
        if self.pca_share is not None:
            lines.insert(
                1,
                f"components         {self.n_components}, the fewest with which PCA explains more than "
                f"{self.pca_share:.6g} of the total: {self.pca_explained:.6g}",
            )
        if self.total_weight is not None:
            lines.append(f"weights            Rows are weighted; the weights sum to {self.total_weight:.6g}.")
        if self.exact_sums:
            lines.append(f"sums               {EXACT_SUMS}")
        if self.missing_chunks is not None:
            lines.append(f"missing            {self.missing_chunks}")
        if self.target is not None:
            lines.insert(-1, f"wanted             {self._wanted()}")
        if verbose:
            lines.insert(5, f"symmetric variance {self.symmetric_ratio:.6f} of PCA's" + self._symmetric_interval())
            lines.insert(-1, f"theory             {self._theory()}")
        if self.decoder_loss is not None:
            share = self.decoder_loss / self.total if self.total > 0 else 0.0
            lines.insert(
                5,
                f"with own decoder   {self.decoder_loss:.6g}  ({1 - share:.4%} explained, as it was fitted)",
            )
        if self.pca_loss_kind != "exact":
            lines.insert(5, f"                   {self._interval()}")
        if self.held_out is not None:
            lines.append(f"held out           {self.held_out.text()}")
            lines += [f"{' ' * NAME_WIDTH}{said}" for said in (self.held_out.choice(),) if said]
            lines.append(f"stability          {self.held_out.stability()}")
            drawn = self.held_out.bootstraps
            lines += [] if drawn is None else [f"resamples          {drawn.text()}"]
        if self.metrics is not None:
            lines.append(self.metrics.details())
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """The same table for notebooks."""
        lines = str(replace(self, metrics=None))
        metrics = "" if self.metrics is None else self.metrics._repr_html_()
        return html_table("Certificate: loss against PCA's", (), labelled_lines(lines, NAME_WIDTH)) + metrics

    def _symmetric_interval(self) -> str:
        """The least and the most that the loss allows."""
        if self.symmetric_lower is None or self.symmetric_upper is None:
            return ""
        return f"  (by the loss {interval(f'{self.symmetric_lower:.6f}', f'{self.symmetric_upper:.6f}')})"

    @staticmethod
    def _prefixes(losses: list[float], bounds: list[float]) -> str:
        """Loss and bound of the first 1, 2, ... components."""
        pairs = zip(losses, bounds, strict=True)
        each = (f"{j}: {loss:.6g} (at most {most:.6g})" for j, (loss, most) in enumerate(pairs, start=1))
        return f"loss after component {', '.join(each)}"

    @property
    def decoder_ratio(self) -> float | None:
        """``decoder_loss`` over PCA's loss, if there is one and PCA loses anything."""
        return None if self.decoder_loss is None or self.pca_loss <= 0 else self.decoder_loss / self.pca_loss

    @property
    def target_met(self) -> bool | None:
        """True if the returned decoder reaches the target, ``eps`` or ``keep``.

        None if the bounds on the two losses leave this open, or if there was no target.
        """
        if self.target is None or self.confidence is not None:
            return None
        least, most = self._ends(self.loss, self.loss_kind, self.loss_lower, self.loss_upper)
        if self.decoder_loss is not None:
            least = most = self.decoder_loss
        pca = self._ends(self.pca_loss, self.pca_loss_kind, self.pca_loss_lower, self.pca_loss_upper)
        sure, possible = (self._allowed_loss(each) for each in pca)
        return True if most <= sure else False if least > possible else None

    @property
    def misses_eps(self) -> bool:
        """True if the target is missed for certain, as where a decoder is made of too few rows."""
        return self.target_met is False

    @property
    def reached(self) -> str:
        """State the loss, or the variance kept, of the returned decoder in the units of the target."""
        own, loss = "with its own decoder, made of rows of X, ", self.decoder_loss
        if loss is None:
            own, loss = "", self.loss
        if self.keep is None:
            return f"{own}the encoder loses {loss / self.pca_loss if self.pca_loss > 0 else math.inf:.6f} x PCA's loss"
        best = self.total - self.pca_loss
        return f"{own}the encoder keeps {(self.total - loss) / best if best > 0 else 1.0:.4%} of what PCA explains"

    @property
    def target(self) -> str | None:
        """The target as it was given, if the number of nonzeros was chosen for one."""
        if self.keep is not None:
            return f"keep={self.keep:g}"
        return None if self.eps is None else f"eps={self.eps:g}"

    def _allowed_loss(self, pca_loss: float) -> float:
        """Largest loss that the target allows, plus the error that rounding may add."""
        allowed = allowed_loss(pca_loss, self.total, eps=self.eps, keep=self.keep)
        return allowed + max(self.loss_error, rounding_error(allowed, self.total))

    @staticmethod
    def _ends(value: float, kind: str, lower: float | None, upper: float | None) -> tuple[float, float]:
        """Bounds on a loss; the loss itself where it is exact or nothing else is known."""
        if kind == "exact":
            return value, value
        return value if lower is None else lower, math.inf if upper is None else upper

    def _ratio_interval(self) -> str:
        """Line with the interval of the ratio on all rows; empty if all rows were seen."""
        if self.ratio_lower is None or self.ratio_upper is None or self.confidence is None:
            return ""
        ends = interval(f"{self.ratio_lower:.6f}", f"{self.ratio_upper:.6f}")
        return f"\n                   estimate: {ends}, {self._confidence()}"

    def _confidence(self) -> str:
        """Probability that an interval holds, and under which assumption."""
        return f"{self.confidence:.0%} confidence, if all row blocks have the same distribution"

    def _unread(self) -> str:
        """Share of the rows that were read, and the gain that reading the others could bring."""
        if self.left_to_gain is None:
            return ""
        return (
            f", {self.fraction_read:.2%} of the rows\n"
            f"                   reading all rows could reduce the ratio by at most {self.left_to_gain:.6f}"
        )

    def _loss_interval(self) -> str:
        """Line with the interval of the loss; empty if the loss is exact."""
        if self.loss_kind == "exact" or self.loss_lower is None or self.loss_upper is None:
            return ""
        sure = "certain" if self.confidence is None else self._confidence()
        ends = interval(f"{self.loss_lower:.6g}", f"{self.loss_upper:.6g}")
        return f"\n                   {self.loss_kind}: {ends}, {sure}"

    def _summed(self) -> str:
        """Origin of the loss, where it is not the core."""
        return ("\n                   summed over the rows") if self.summed_over_rows else ""

    def _wanted(self) -> str:
        return f"{str(self.target).replace('=', ' = ')}: r = {self.n_nonzero} found, {self._outcome()}"

    def _outcome(self) -> str:
        """Outcome of the target, in words: met or missed, certainly or by the estimate."""
        if self.target_met is not None:
            return "met" if self.target_met else f"missed: {self.reached}"
        met = self.loss <= self._allowed_loss(self.pca_loss)
        return f"{'met' if met else 'missed'} by the estimate, not for certain"

    def _interval(self) -> str:
        """Certain bounds on PCA's loss, and hence on the ratio."""
        lower, upper = self.pca_loss_lower or 0.0, self.pca_loss_upper
        if self.confidence is not None and upper is not None:
            return f"estimate: {interval(f'{lower:.6g}', f'{upper:.6g}')}, {self._confidence()}"
        if upper is None:
            return f"PCA is certain to lose at least {lower:.6g}"
        if upper <= 0:
            return "certain: PCA loses nothing"
        least_loss, most_loss = self.loss, self.loss
        if self.confidence is None and self.loss_lower is not None and self.loss_upper is not None:
            least_loss, most_loss = self.loss_lower, self.loss_upper
        least, most = f"{max(1.0, least_loss / upper):.6f}", f"{most_loss / lower:.6f}" if lower > 0 else "not bounded"
        wide = self.pca_loss_kind == "estimate" and self.loss_kind == "exact" and least != most
        more = "; certified=True may narrow this" if wide else ""
        ends = interval(f"{lower:.6g}", f"{upper:.6g}")
        return f"certain: PCA loses {ends}, so the ratio is {interval(least, most)}{more}"

    def _excess(self) -> str:
        if not math.isfinite(self.ratio):
            return "  (PCA loses nothing at this many components)"
        return f"  ({self.ratio - 1:.3%} more than the least possible)"

    def _theory(self) -> str:
        promised = self.theorem if self.bound is None else f"at most {self.bound:.4g} x PCA's: {self.theorem}"
        if self.theory_n_nonzero is None:
            return promised
        sharp = "" if self.theory_n_nonzero_sharp is None else f", {self.theory_n_nonzero_sharp} with sharper constants"
        return f"{promised}\n                   theory's r for this eps: {self.theory_n_nonzero}{sharp}"

    def _gap(self) -> str:
        """Share of the total that PCA explains and the encoder does not, and how it is known."""
        said = self.left_to_choose() and f"\n{' ' * NAME_WIDTH}{self.left_to_choose()}"
        kept = f"{self.explained_of_pca:.4%} of what PCA explains is kept"
        if self.total <= 0 or (self.loss_kind == self.pca_loss_kind == "exact"):
            return f"{self.explained_gap:.4%} of the total; {kept}{said}"
        most_loss = self._ends(self.loss, self.loss_kind, self.loss_lower, self.loss_upper)[1]
        least_pca = self._ends(self.pca_loss, self.pca_loss_kind, self.pca_loss_lower, self.pca_loss_upper)[0]
        most = (min(most_loss, self.total) - least_pca) / self.total
        sure = "certain" if self.confidence is None else "by the intervals below"
        return (
            f"{self.explained_gap:.4%} of the total; {kept}\n"
            f"                   at most {max(most, self.explained_gap):.4%}, {sure}{said}"
        )


def _rounded_up(share: float) -> str:
    """A share in percent with two digits, rounded up; tiny ones as 0.0001 %."""
    percent = max(100.0 * share, 1e-4)
    digits = 1 - math.floor(math.log10(percent))
    unit = 10.0**-digits
    up = math.ceil(percent / unit - 1e-9) * unit
    return f"{up:.{max(0, digits)}f} %"


def symmetric_bounds(certificate: Certificate, H: Floats, G: Floats) -> tuple[float | None, float | None]:
    """Least and most symmetric variance over PCA's that an encoder of this loss can have.

    With Q an orthonormal basis of the span of H, ``XHG = (XQ)(Q'HG)`` gives
    ``||XHG||^2 <= ||XHH^+||^2 ||HG||_2^2``, and no decoder explains more than the optimal G:
    ``||XHH^+||^2 <= ||XHG||^2``. Both are equalities for PCA. The lower one is for ``X = 11'`` too, where r of d
    features lose nothing and have r/d of the symmetric variance.

    Parameters
    ----------
    certificate : Certificate
        Certificate of the encoder.
    H, G : ndarray (d, k), (k, d)
        Encoder, and its optimal decoder.

    Returns
    -------
    tuple of float or None
        None if the encoder or PCA explains nothing.
    """
    explained, best = certificate.total - certificate.loss, certificate.total - certificate.pca_loss
    stretch = float(np.linalg.norm(np.linalg.qr(H)[1] @ G, 2)) ** 2
    if not stretch > 0.0 or not best > 0.0:
        return None, None
    return explained / (stretch * best), explained / best
