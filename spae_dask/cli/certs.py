"""``spae certs``: certificates for a cluster over TLS."""

from typing import Annotated

import typer

from spae_dask.cli.console import command_context
from spae_dask.cli.options.groups import takes_groups
from spae_dask.cli.options.output import ConsoleOptions
from spae_dask.plain_files import in_shell

EXAMPLES = """Examples:

  spae certs certs
  spae certs certs --host node1.example.org --host 10.0.0.5 --days 30
  spae fit X.zarr -k 10 -r 12 -o ENC.zarr --cluster tls://10.0.0.5:8786 --tls-dir certs
"""


@takes_groups
def certs(
    *,
    folder: Annotated[str, typer.Argument(metavar="DIR", help="New folder for the certificates.", show_default=False)],
    host: Annotated[
        list[str] | None,
        typer.Option(
            "--host",
            metavar="NAME",
            help="Host name or address to certify, besides the loopback ones. May be given more than once.",
            show_default=False,
        ),
    ] = None,
    days: Annotated[
        int,
        typer.Option(
            "--days", metavar="N", min=1, max=3650, help="Number of days for which the certificates are valid."
        ),
    ] = 365,
    shown: ConsoleOptions,
) -> None:
    """Make an authority, and certificates for scheduler, workers and client.

    Anyone who holds one of these files can run code on the cluster, so only their
    owner can read them. Nothing is overwritten.
    """
    with command_context("certs", shown) as console:
        from spae_dask.clusters.certificates import make_certificates

        files = [str(path) for path in make_certificates(folder, hosts=host or (), days=days)]
        console.result("\n".join(files), {"folder": folder, "files": files, "days": days})
        for role in ("scheduler", "worker"):
            here = in_shell(folder)
            address = "--protocol tls" if role == "scheduler" else "tls://HOST:8786"
            console.note(
                f"{role:9} dask {role} {address} --tls-ca-file {here}/ca.pem --tls-cert {here}/{role}.pem "
                f"--tls-key {here}/{role}-key.pem"
            )
        console.note(f"client    spae fit ... --cluster tls://HOST:8786 --tls-dir {in_shell(folder)}")
        console.note("keep      ca-key.pem private: it makes new certificates, and no cluster needs it")
