"""Section about an encoder's provenance, its parameters, and the commands that reproduce it."""

from collections.abc import Mapping
from typing import Any

from spae_dask.report.encoder_results import EncoderResults
from spae_dask.report.html import Markup, Section, commands, definitions, filled, joined, paragraph
from spae_dask.report.reproduce import fit_command, python_lines

FACTS = (
    ("spae_dask", "version of spae-dask"),
    ("date", "made"),
    ("source", "data"),
    ("data_fingerprint", "fingerprint of the data"),
    ("strategy", "strategy"),
    ("seed", "seed"),
)
"""Entries of the record that are shown unchanged, with their labels."""


def record_section(results: EncoderResults) -> Section:
    """Provenance, parameters, and the command and lines of Python that make the encoder again."""
    record, parameters = results.provenance, results.parameters
    facts: list[tuple[str, Markup | str]] = [
        (name, str(record[key])) for key, name in FACTS if record.get(key) is not None
    ]
    facts += _about_the_data(record)
    command, version = fit_command(parameters, record), record.get("spae_dask")
    install = [f'pip install "spae-dask=={version}"'] if isinstance(version, str) else []
    shell = (
        paragraph("No command makes it again, since the data were not read from a file or a URL; these lines do:")
        if command is None
        else commands([*install, command])
    )
    python = joined(
        *([paragraph("The same in Python:")] if command else []), commands(python_lines(parameters, record))
    )
    again = Markup("<h3>To make it again</h3>")
    same = paragraph(
        "The same data, parameters and versions, numerical libraries included, give the same bits, however many "
        "threads, processes or machines there are. The strategy is named because the one that a fit takes by itself "
        "depends on the memory there is."
    )
    source = str(record.get("source"))
    there = paragraph(
        "The path is that of the machine of the fit. Elsewhere give your own; the same fingerprint means the same data."
    )
    asked = definitions([(name, repr(value)) for name, value in parameters.items()])
    every = Markup("<details><summary>All parameters of the fit</summary>{}</details>").format(asked)
    html = joined(definitions(facts), every, again, shell, *([there] if source.startswith("/") else []), python, same)
    return Section("Where it comes from, and how to make it again", html)


def _about_the_data(record: Mapping[str, Any]) -> list[tuple[str, Markup | str]]:
    facts: list[tuple[str, Markup | str]] = []
    shape = record.get("shape")
    if isinstance(shape, list | tuple) and len(shape) == 2:
        facts.append(("their shape", filled("{} rows, {} features, {}", *_counts(shape), str(record.get("dtype", "")))))
    constant = record.get("constant_features")
    if isinstance(constant, list | tuple) and constant:
        listed = ", ".join(map(str, constant[:20])) + (", ..." if len(constant) > 20 else "")
        facts.append(("features without variance", f"{len(constant):,}, never used: columns {listed}"))
    rows = record.get("selected_rows")
    if isinstance(rows, list | tuple) and rows:
        listed = ", ".join(map(str, rows[:20])) + (", ..." if len(rows) > 20 else "")
        facts.append(("rows the decoder is made of", f"{len(rows):,}: rows {listed}"))
    return facts


def _counts(shape: Any) -> tuple[str, str]:
    first, second = (f"{each:,}" if isinstance(each, int) else str(each) for each in shape)
    return first, second
