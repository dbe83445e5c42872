"""Rules for the choice of features: which are never chosen, or always, what they cost, and how many of a group may be.

`Rules.resolved` finds the features among those of the data, and `Rules.check` refuses rules that no choice keeps,
before anything is read. This module is light: the command line is made from it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import accumulate
from typing import Any

from spae_dask.errors import InvalidInput
from spae_dask.features import Feature, Known, Values, costs_of, features_of, groups_of, limits_of, positions_of
from spae_dask.plain_files import listed
from spae_dask.toml.names import did_you_mean

Limits = int | Mapping[str, int] | None
"""A limit for all groups, or for some by name."""

ROUNDING = 1e-12
"""Part of a budget that a sum of costs may exceed it by rounding."""


@dataclass(frozen=True)
class Rules:
    """Rules for the choice of features.

    Attributes
    ----------
    include, exclude : tuple of str or int
        Features that are there in any case, and those that are never chosen: names, patterns and numbers.
    costs : mapping or tuple, optional
        Cost of each feature, by feature or of all in order. Included ones are paid already.
    budget : float, optional
        The most that all chosen features may cost together.
    groups : mapping or tuple, optional
        Group of each feature; "" for none.
    at_most, at_least : int or mapping, optional
        The most and the fewest features of a group, included ones among them: for all groups, or by group.
    positions : mapping or tuple, optional
        Position of each feature, a number or several.
    min_distance : float, optional
        Least distance of a chosen feature from the other ones, chosen or included.

    Examples
    --------
    >>> rules = Rules.of({"include": "CD3E", "exclude": ["MT-*"]})
    >>> str(rules)
    'include CD3E; exclude MT-*'
    >>> found = rules.resolved(["CD3E", "MT-CO1", "LYZ", "MT-ND1"], 4)
    >>> found.include, found.exclude
    ((0,), (1, 3))
    """

    include: tuple[Feature, ...] = ()
    exclude: tuple[Feature, ...] = ()
    costs: Values | None = None
    budget: float | None = None
    groups: Values | None = None
    at_most: Limits = None
    at_least: Limits = None
    positions: Values | None = None
    min_distance: float | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any], n_features: int | None = None) -> "Rules":
        """The rules that parameters by name describe; arrays have ``n_features`` entries, if that is known.

        Raises
        ------
        InvalidInput
            If one of them describes no rule. The message says what is allowed.
        """
        budget, distance = given.get("budget"), given.get("min_distance")
        return cls(
            features_of(given.get("include"), n_features),
            features_of(given.get("exclude"), n_features),
            costs_of(given.get("costs"), n_features),
            None if budget is None else float(budget),
            groups_of(given.get("groups"), n_features),
            limits_of(given.get("at_most")),
            limits_of(given.get("at_least")),
            positions_of(given.get("positions"), n_features),
            None if distance is None else float(distance),
        )

    @property
    def given(self) -> tuple[str, ...]:
        """Names of the rules that there are."""
        return tuple(name for name in RULES if getattr(self, name) not in (None, ()))

    @property
    def told(self) -> str:
        """The same in a sentence."""
        return " and ".join(each for each in (", ".join(self.given[:-1]), *self.given[-1:]) if each)

    def __bool__(self) -> bool:
        """True if there is any rule."""
        return bool(self.given)

    def __str__(self) -> str:
        """The rules in words."""
        return "; ".join(f"{name} {_in_words(getattr(self, name))}" for name in self.given)

    @property
    def of_features(self) -> "Rules":
        """Those rules that are about single features."""
        return Rules(self.include, self.exclude)

    @property
    def of_panel(self) -> tuple[str, ...]:
        """Names of those rules that are about all features together."""
        return tuple(name for name in self.given if name in OF_PANEL)

    def resolved(self, names: Sequence[object] | None, n_features: int) -> "Rules":
        """The same rules in ascending numbers of features, and values of all features in order.

        Parameters
        ----------
        names : sequence or None
            Names of the features, if they have names.
        n_features : int
            d.

        Raises
        ------
        InvalidInput
            If a feature is not there, the rules contradict each other, or they leave nothing to choose.
        """
        known = Known(names, n_features)
        include, exclude = (known.places(name, getattr(self, name)) for name in ("include", "exclude"))
        both = sorted(set(include) & set(exclude))
        if both:
            raise InvalidInput(
                f"include={listed(self.include)} and exclude={listed(self.exclude)} contradict each other: both name "
                f"{known.told(both)}. Leave these features out of one of the two."
            )
        if len(exclude) == n_features:
            raise InvalidInput(
                f"exclude={listed(self.exclude)} leaves none of the {n_features:,} features to choose from. "
                "Exclude fewer."
            )
        for name, other in NEEDED:
            if getattr(self, name) is not None and getattr(self, other) is None:
                raise InvalidInput(f"{name} without {other} limits nothing. Give {other} too, or leave out {name}.")
        if self.min_distance is not None and self.at_least is not None:
            raise InvalidInput(
                "min_distance and at_least cannot be combined: a group may have too few features that are far enough "
                "from each other. Leave out one of the two."
            )
        costs, groups, positions = self.costs, self.groups, self.positions
        if costs is not None:
            costs = _filled("costs", costs, known, {*include, *exclude}, 1.0)  # of those that are never paid
        if positions is not None:
            positions = _filled("positions", positions, known, set(exclude), 0.0)
        if groups is not None:
            if self.at_most is None and self.at_least is None:
                raise InvalidInput("groups without at_most and at_least limit nothing. Give one of the two.")
            found = known.values("groups", groups)
            groups = tuple(found.get(place, "") for place in range(n_features))
        most, least = (self._limits(name, set(groups or ()) - {""}) for name in ("at_most", "at_least"))
        made = Rules(include, exclude, costs, self.budget, groups, most, least, positions, self.min_distance)
        made.check(n_features)
        return made

    def on(self, columns: Sequence[int]) -> "Rules":
        """Resolved rules for some of the columns, ascending, by their new numbers; those of other columns fall away."""
        places = {column: place for place, column in enumerate(columns)}

        def numbers(found: Sequence[Feature]) -> tuple[int, ...]:
            return tuple(places[int(j)] for j in found if int(j) in places)

        def values(found: Values | None) -> Values | None:
            return None if found is None else tuple(found[column] for column in columns)

        return replace(
            self,
            include=numbers(self.include),
            exclude=numbers(self.exclude),
            costs=values(self.costs),
            groups=values(self.groups),
            positions=values(self.positions),
        )

    def limit(self, name: str, group: str) -> int | None:
        """The most, or the fewest, features of a group in resolved rules; None if there is no such limit."""
        limits = getattr(self, name)
        return limits.get(group) if isinstance(limits, Mapping) else None

    @property
    def limited(self) -> tuple[str, ...]:
        """Groups of resolved rules that have a limit, by name."""
        return tuple(
            sorted({group for found in (self.at_most, self.at_least) if isinstance(found, Mapping) for group in found})
        )

    def price(self, columns: Sequence[int]) -> float | None:
        """Costs of columns beside included ones, of resolved rules; None without costs."""
        paid = set(map(int, self.include))
        return None if self.costs is None else float(sum(self.costs[j] for j in columns if j not in paid))

    def affordable(self, n_features: int) -> int:
        """The most features, beside included ones, that resolved rules allow by their costs and numbers."""
        others = self._others(n_features)
        if self.costs is None or self.budget is None:
            return len(others)
        sums = accumulate(sorted(self.costs[j] for j in others))
        return sum(each <= self.budget * (1 + ROUNDING) for each in sums)

    def check(self, n_features: int, size: int | None = None) -> None:
        """Refuse resolved rules that no panel of so many features keeps, beside included ones.

        Raises
        ------
        InvalidInput
            Naming the rule.
        """
        others = self._others(n_features)
        needed, price = 0, 0.0
        for group in self.limited:
            assert self.groups is not None, "limits are of groups"
            there = sum(self.groups[int(j)] == group for j in self.include)
            left = [j for j in others if self.groups[j] == group]
            most, least = self.limit("at_most", group), self.limit("at_least", group) or 0
            if most is not None and there > most:
                raise InvalidInput(
                    f"at_most={most} of the group {group!r} is less than the {there} features of it that include "
                    "names. Give a larger number, or include fewer."
                )
            if most is not None and least > most:
                raise InvalidInput(
                    f"at_least={least} and at_most={most} of the group {group!r} contradict each other. Change one of "
                    "the two."
                )
            if least > there + len(left):
                raise InvalidInput(
                    f"at_least={least} of the group {group!r} is more than the {there + len(left)} features of it that "
                    "may be chosen. Give a smaller number, or exclude fewer."
                )
            lacking = max(0, least - there)
            needed += lacking
            if self.costs is not None:
                price += sum(sorted(self.costs[j] for j in left)[:lacking])
        if size is not None and needed > size:
            raise InvalidInput(
                f"at_least asks for {needed} features beside included ones, and the panel has {size} at most. Give a "
                "smaller number, or a larger panel."
            )
        if self.costs is None or self.budget is None:
            return
        if price > self.budget * (1 + ROUNDING):
            raise InvalidInput(
                f"budget={self.budget:g} is less than the {price:g} that the cheapest features for at_least cost. Give "
                "a larger budget, or a smaller number."
            )
        least_cost = min((self.costs[j] for j in others), default=0.0)
        if least_cost > self.budget * (1 + ROUNDING):
            raise InvalidInput(
                f"budget={self.budget:g} is less than the cheapest feature costs, {least_cost:g}. Give a larger budget."
            )

    def _others(self, n_features: int) -> list[int]:
        """Features that may be chosen beside included ones."""
        return sorted(set(range(n_features)).difference(map(int, (*self.include, *self.exclude))))

    def _limits(self, name: str, known: set[str]) -> dict[str, int] | None:
        """Limits of groups by name."""
        limits = getattr(self, name)
        if not isinstance(limits, Mapping):
            return None if limits is None else dict.fromkeys(sorted(known), limits)
        for group in limits:
            if group not in known:
                raise InvalidInput(
                    f"{name} names the group {group!r}, of which there are no features."
                    f"{did_you_mean(group, sorted(known))} Give groups that are there."
                )
        return {group: limits[group] for group in sorted(limits)}


NEEDED = (
    ("costs", "budget"),
    ("budget", "costs"),
    ("at_most", "groups"),
    ("at_least", "groups"),
    ("positions", "min_distance"),
    ("min_distance", "positions"),
)
"""Rules that mean nothing without another."""

RULES = tuple(each.name for each in fields(Rules))
"""Names of the rules."""

OF_PANEL = RULES[2:]
"""Those that are about all features together."""


def _filled(rule: str, given: Values, known: Known, exempt: set[int], default: float) -> tuple[Any, ...]:
    """Values of all features in order; a default for those that need none."""
    found = known.values(rule, given)
    lacking = sorted(set(range(known.n_features)).difference(found, exempt))
    if lacking:
        raise InvalidInput(
            f"{rule} lack {len(lacking):,} of the {known.n_features:,} features: {known.told(lacking)}. Give one for "
            "each, or exclude these."
        )
    one = next(iter(found.values()), default)
    fill = (default,) * len(one) if isinstance(one, tuple) else default
    return tuple(found.get(place, fill) for place in range(known.n_features))


def _in_words(found: Any) -> str:
    if isinstance(found, Mapping):
        return listed(f"{name}={value}" for name, value in found.items())
    return listed(found) if isinstance(found, tuple) else f"{found:g}"
