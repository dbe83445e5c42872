"""Files beside the code agree with the package: the site, the citation, the recipe, the workflow, the paper."""

import ast
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

from spae_dask import __version__

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SITE = ROOT / "docs" / "site"
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"), key=str)
IN_CONDA = {"dask": "dask-core"}
"""Names of packages that differ in conda."""


def configuration() -> dict[str, Any]:
    """The literals of the site's configuration, which cannot be imported without Sphinx."""
    found = {}
    for each in ast.parse((SITE / "conf.py").read_text(encoding="utf-8")).body:
        if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name):
            try:
                found[each.targets[0].id] = ast.literal_eval(each.value)
            except ValueError:
                keys = each.value.keys if isinstance(each.value, ast.Dict) else []
                found[each.targets[0].id] = [key.value for key in keys if isinstance(key, ast.Constant)]
    return found


def pages() -> list[Path]:
    """All pages of the site."""
    configured = configuration()
    found = {path for pattern in configured["include_patterns"] for path in ROOT.glob(pattern.replace("**.", "**/*."))}
    return sorted(path for path in found if "paper" not in path.relative_to(ROOT).parts)


def load(path: str) -> Any:
    """A file in YAML."""
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


def test_every_pattern_of_the_site_finds_a_page_and_every_other_file_exists() -> None:
    configured = configuration()
    for pattern in configured["include_patterns"]:
        assert list(ROOT.glob(pattern.replace("**.", "**/*."))), pattern
    assert configured["exclude_patterns"].count("docs/paper") == 1
    assert len(configured["MADE"]) == 2
    for page in [configured["root_doc"], *configured["MADE"]]:
        assert (ROOT / f"{page}.md").is_file(), page
    for sheet in configured["html_css_files"]:
        assert any((SITE / folder / sheet).is_file() for folder in configured["html_static_path"]), sheet
    wanted = {Requirement(line).name for line in (SITE / "requirements.txt").read_text().splitlines()}
    for extension in configured["extensions"]:
        assert extension.startswith("sphinx.ext.") or extension.replace("_", "-") in wanted, extension
    assert {configured["html_theme"], "sphinx"} <= wanted


def test_every_page_of_the_site_is_linked_in_the_index_below_a_heading() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    below = index.split("\n## ", 1)[1]
    linked = {(ROOT / "docs" / each).resolve() for each in re.findall(r"\]\(([^)#]+)\)", below)}
    assert {str(page) for page in pages()} - {str(ROOT / "docs" / "index.md")} == {str(each) for each in linked}
    assert not re.search(r"\]\([^)#]+\)", index.split("\n## ", 1)[0]), "the table of contents would lack it"


def test_every_page_of_the_site_has_one_title_at_its_top() -> None:
    for page in pages():
        if page.suffix == ".md":
            text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
            assert text.startswith("# "), page
            assert len(re.findall(r"^# ", text, re.MULTILINE)) == 1, page


def test_versions_and_licence_agree() -> None:
    citation, recipe = load("CITATION.cff"), load("deploy/conda/recipe.yaml")
    assert citation["version"] == recipe["context"]["version"] == __version__
    assert citation["license"] == recipe["about"]["license"] == PYPROJECT["project"]["license"]
    assert recipe["about"]["summary"] == PYPROJECT["project"]["description"]
    assert re.search(rf"^## {re.escape(__version__)} ", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)


def test_the_recipe_asks_for_what_the_package_asks_for() -> None:
    recipe, project = load("deploy/conda/recipe.yaml"), PYPROJECT["project"]
    declared = [Requirement(text) for text in project["dependencies"]]
    wanted = {f"{IN_CONDA.get(each.name, each.name)} {each.specifier}" for each in declared}
    assert set(recipe["requirements"]["run"]) == wanted | {f"python {project['requires-python']}"}
    ((name, target),) = project["scripts"].items()
    assert recipe["build"]["python"]["entry_points"] == [f"{name} = {target}"]
    backend = {f"{each.name} {each.specifier}" for each in map(Requirement, PYPROJECT["build-system"]["requires"])}
    assert backend <= set(recipe["requirements"]["host"])


def test_the_workflow_calls_targets_that_exist_on_every_python_that_is_named() -> None:
    jobs = load(".github/workflows/checks.yml")["jobs"]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    lines = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    called = set(re.findall(r"make ([a-z-]+)$", "\n".join(lines), re.MULTILINE))
    called |= set(jobs["targets"]["strategy"]["matrix"]["target"])
    assert {"lint", "test", "lowest", "docs", "dist", "test-integration"} <= called
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in called)
    named = {text.rpartition(" ")[2] for text in PYPROJECT["project"]["classifiers"] if re.search(r":: 3\.\d+$", text)}
    assert set(jobs["test"]["strategy"]["matrix"]["python"]) == named


@pytest.mark.parametrize("form", FORMS, ids=lambda path: path.stem)
def test_forms_of_issues_have_what_the_forge_needs(form: Path) -> None:
    document = load(str(form.relative_to(ROOT)))
    if form.stem == "config":
        assert document["blank_issues_enabled"] is True
        return
    assert document["name"]
    assert document["description"]
    identifiers = [part["id"] for part in document["body"]]
    assert len(set(identifiers)) == len(identifiers)
    assert all(part["attributes"]["label"] for part in document["body"])


def test_every_work_that_the_paper_cites_is_in_its_bibliography() -> None:
    text = (ROOT / "docs" / "paper" / "paper.md").read_text(encoding="utf-8")
    bibliography = (ROOT / "docs" / "paper" / "paper.bib").read_text(encoding="utf-8")
    entries = re.findall(r"^@\w+\{(\w+),", bibliography, re.MULTILINE)
    assert set(re.findall(r"@(\w+)", text)) == set(entries)
    assert len(set(entries)) == len(entries)


def test_every_classifier_is_known_to_the_index() -> None:
    known = pytest.importorskip("trove_classifiers").classifiers
    assert set(PYPROJECT["project"]["classifiers"]) <= set(known)


def test_names_that_are_nearly_right_are_suggested_by_one_function() -> None:
    own = {"toml/names.py", "plain_files.py", "cli/exits.py"}  # of names, of files, and of options
    package = ROOT / "spae_dask"
    found = {path.relative_to(package).as_posix() for path in package.rglob("*.py") if "difflib" in path.read_text()}
    assert found == own
