"""Dependencies against a table of known advisories, offline: what is locked, and the oldest that may be installed.

The table, ``data/advisories.csv``, was compiled by hand in November 2026, and knows nothing that was published later;
`make audit` asks the whole database. A version counts as vulnerable if it is lower than the one that fixed it: fixes
that older branches were given as well are not told apart.
"""

import csv
import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
LOCK = [Requirement(line) for line in (ROOT / "requirements.lock").read_text().splitlines() if line.strip()]


def advisories() -> list[tuple[str, str, Version]]:
    with (ROOT / "tests/data/advisories.csv").open(newline="", encoding="utf-8") as file:
        return [(row["id"], row["package"], Version(row["fixed_in"])) for row in csv.DictReader(file)]


def declared() -> list[Requirement]:
    """What pyproject.toml asks for, extras of our own apart."""
    document = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project = document["project"]
    groups = [project["dependencies"], document["build-system"]["requires"]]
    groups += [*project["optional-dependencies"].values(), *document["dependency-groups"].values()]
    texts = [text for group in groups for text in group]
    return [each for each in map(Requirement, texts) if each.name != "spae-dask"]


def vulnerable(requirements: list[Requirement]) -> list[str]:
    """Advisories that the lowest version of a requirement falls under."""
    found = []
    for each in requirements:
        for name, package, fixed_in in advisories():
            lowest = [Version(one.version) for one in each.specifier if one.operator in ("==", ">=", "~=")]
            if canonicalize_name(each.name) == package and (not lowest or max(lowest) < fixed_in):
                found.append(f"{each}: {name} is fixed in {fixed_in}")
    return found


def test_no_locked_version_has_a_known_advisory() -> None:
    assert vulnerable(LOCK) == []


def test_no_version_that_may_be_installed_has_one() -> None:
    assert vulnerable(declared()) == []


def test_every_locked_version_is_pinned() -> None:
    loose = [str(each) for each in LOCK if not re.fullmatch(r"==[^*,]+", str(each.specifier)) or each.url]
    assert loose == []


def test_everything_declared_is_locked_at_a_version_it_allows() -> None:
    locked = [(canonicalize_name(each.name), next(iter(each.specifier)).version) for each in LOCK]
    for each in declared():
        versions = [version for name, version in locked if name == canonicalize_name(each.name)]
        assert versions or each.name == "dask", each
        assert all(each.specifier.contains(version) for version in versions), each


def test_the_table_is_of_packages_in_the_lock_once_each() -> None:
    table = advisories()
    locked = {canonicalize_name(each.name) for each in LOCK}
    assert {package for _, package, _ in table} <= locked
    assert len({name for name, _, _ in table}) == len(table)
    assert [(package, fixed_in) for _, package, fixed_in in table] == sorted((p, v) for _, p, v in table)
    assert all(re.fullmatch(r"CVE-\d{4}-\d{4,7}|GHSA(-[a-z0-9]{4}){3}", name) for name, _, _ in table)


@pytest.mark.parametrize(
    ("text", "found"),
    [("h11==0.15", True), ("h11>=0.14", True), ("h11", True), ("H11==0.16.0", False), ("zarr==1", False)],
)
def test_what_is_too_old_is_found(text: str, found: bool) -> None:
    assert bool(vulnerable([Requirement(text)])) == found
