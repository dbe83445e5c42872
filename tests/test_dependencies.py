"""Every dependency is locked, at a version that pyproject.toml allows. `make audit` looks for known advisories."""

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
LOCK = [Requirement(line) for line in (ROOT / "requirements.lock").read_text().splitlines() if line.strip()]


def declared() -> list[Requirement]:
    """What pyproject.toml asks for, extras of our own apart."""
    document = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project = document["project"]
    groups = [project["dependencies"], document["build-system"]["requires"]]
    groups += [*project["optional-dependencies"].values(), *document["dependency-groups"].values()]
    texts = [text for group in groups for text in group]
    return [each for each in map(Requirement, texts) if each.name != "spae-dask"]


def test_every_locked_version_is_pinned() -> None:
    loose = [str(each) for each in LOCK if not re.fullmatch(r"==[^*,]+", str(each.specifier)) or each.url]
    assert loose == []


def test_everything_declared_is_locked_at_a_version_it_allows() -> None:
    locked = [(canonicalize_name(each.name), next(iter(each.specifier)).version) for each in LOCK]
    for each in declared():
        versions = [version for name, version in locked if name == canonicalize_name(each.name)]
        assert versions or each.name == "dask", each
        assert all(each.specifier.contains(version) for version in versions), each
