"""``spae inspect``: what an encoder is made of, and where it comes from."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from spae_dask.cli.console import command_context
from spae_dask.cli.options.data import EncoderArgument
from spae_dask.cli.options.groups import OUTPUT, takes_groups
from spae_dask.cli.options.output import ConsoleOptions, ForceOption

if TYPE_CHECKING:
    from spae_dask.estimators.sparse_encoder import SparseEncoder

EXAMPLES = """Examples:

  spae inspect ENC.zarr
  spae inspect ENC.zarr --table features.csv
  spae inspect ENC.zarr --json | jq '.components[0].features[].name'
"""

SHOWN = 8
"""Features of each component in the table, if no other number is given."""


@takes_groups
def inspect(
    *,
    encoder: EncoderArgument,
    top: Annotated[
        int | None,
        typer.Option(
            "--top",
            metavar="N",
            min=1,
            help=f"Number of features to list for each component. Default: {SHOWN}, or all with --json.",
            show_default=False,
            rich_help_panel="Console",
        ),
    ] = None,
    table: Annotated[
        str | None,
        typer.Option(
            "--table",
            metavar="FILE.csv",
            help="Also write the features: rank, weight, and where known cost, group and stability.",
            show_default=False,
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    force: ForceOption = False,
    shown: ConsoleOptions,
) -> None:
    """Show an encoder: certificate, features of each component, requested fit, parameters and provenance."""
    with command_context("inspect", shown) as console:
        from spae_dask.cli.target import check_paths
        from spae_dask.estimators.saved import load_encoder
        from spae_dask.report.reproduce import fit_command

        if table is not None:
            if not table.endswith(".csv"):
                raise typer.BadParameter(f"{table} does not end in .csv", param_hint="'--table'")
            check_paths(table, [encoder], force=force)
        fitted = load_encoder(encoder)
        if table is not None:
            write_features(fitted, table, force=force)
        components = features_by_component(fitted)
        parameters = {name: value for name, value in fitted.get_params().items() if name not in NOT_OF_INTEREST}
        command = fit_command(parameters, fitted.provenance_)
        console.result(
            "\n\n".join(
                [
                    fitted.certificate_.text(verbose=console.verbose > 0),
                    _component_table(components, top or SHOWN),
                    *([] if command is None else [f"fit again\n  {command}"]),
                    _listed("parameters", parameters),
                    _listed("provenance", {k: v for k, v in fitted.provenance_.items() if not isinstance(v, NESTED)}),
                ]
            ),
            {
                "encoder": encoder,
                "certificate": fitted.certificate_.as_dict(),
                "components": [each | {"features": each["features"][:top]} for each in components],
                "features": fitted.table().records(),
                "fit_command": command,
                "parameters": parameters,
                "provenance": fitted.provenance_,
            },
        )


def write_features(fitted: "SparseEncoder", path: str, *, force: bool) -> None:
    """Write the features as a table, which appears only when it is complete."""
    from spae_dask.errors import InvalidInput
    from spae_dask.storage.writing.json_and_csv import write_csv

    records = fitted.table().records()
    if not records:
        raise InvalidInput(f"{path} is not written: the encoder uses no features. Leave out --table.")
    write_csv(records, path, overwrite=force)


NESTED = (list, dict)
"""Entries of the record that are for --json and for reports."""

NOT_OF_INTEREST = ("memory_limit", "checkpoint", "progress")
"""Parameters that say where a fit ran."""


def features_by_component(encoder: "SparseEncoder") -> list[dict[str, Any]]:
    """Return each component's share of the variance, and its features by falling magnitude of coefficients."""
    names = getattr(encoder, "feature_names_in_", None)
    found = []
    for row, share in zip(encoder.components_, encoder.explained_variance_ratio_, strict=True):
        columns = sorted((int(c) for c in row.nonzero()[0]), key=lambda c: (-abs(row[c]), c))
        features = [
            {"column": c, "name": None if names is None else str(names[c]), "coefficient": float(row[c])}
            for c in columns
        ]
        found.append({"explained": float(share), "n_features": len(features), "features": features})
    return found


def _component_table(components: list[dict[str, Any]], top: int) -> str:
    lines = ["component  explained  features, largest coefficient first"]
    for number, component in enumerate(components, start=1):
        features = component["features"]
        shown = [f"{_name(each)} {each['coefficient']:+.4f}" for each in features[:top]]
        more = f", and {len(features) - top} more (--top {len(features)})" if len(features) > top else ""
        between = "; " if any("," in each for each in shown) else ", "
        lines.append(f"{number:<9}  {component['explained']:>9.2%}  {between.join(shown) or 'none'}{more}")
    return "\n".join(lines)


def _name(feature: dict[str, Any]) -> str:
    from spae_dask.report.encoder_results import column_label

    return str(feature["name"]) if feature["name"] is not None else column_label(feature["column"])


def _listed(title: str, values: dict[str, Any]) -> str:
    width = max((len(name) for name in values), default=0)
    return "\n".join([title, *(f"  {name:<{width}}  {value}" for name, value in values.items())])
