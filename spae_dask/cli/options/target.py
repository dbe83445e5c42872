"""Options for the execution target of a verb, and for its memory."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from spae_dask.cli.options.groups import WHERE
from spae_dask.clusters.addresses import is_address

if TYPE_CHECKING:
    from spae_dask.cli.performance import PerformanceReport
    from spae_dask.cli.target import Target


def check_cluster(given: str | None) -> str | None:
    """Refuse what no connector understands, before anything is imported or read."""
    if given is None or re.fullmatch(r"none|local(:[1-9][0-9]{0,4})?|.*\.toml", given) or is_address(given):
        return given
    raise typer.BadParameter(
        f"{given!r} is not a cluster. Give none, local, local:N, tcp://HOST:PORT, tls://HOST:PORT or a "
        "cluster file, FILE.toml."
    )


def check_file(given: str | None) -> str | None:
    """Refuse what is no cluster file, before anything is imported or read."""
    if given is None or given.endswith(".toml"):
        return given
    raise typer.BadParameter(f"{given!r} is not a cluster file. Give the path of one, FILE.toml.")


def check_memory(given: str | None) -> str | None:
    """Refuse what is not a number of bytes."""
    if given is None or (
        re.fullmatch(r"\d+(\.\d*)?\s*([kKMGTP]i?)?[bB]?", given) and float(re.match(r"[\d.]+", given)[0]) > 0  # type: ignore[index]
    ):
        return given
    raise typer.BadParameter(f"{given!r} is not a number of bytes above 0. Write it as 2GB, 512MiB or 2000000000.")


ClusterOption = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="WHERE",
        callback=check_cluster,
        help="none (no processes), local:N (N processes), tcp://HOST:PORT, tls://HOST:PORT or a cluster FILE.toml.",
        show_default=False,
        rich_help_panel=WHERE,
    ),
]
TlsDirOption = Annotated[
    str | None,
    typer.Option(
        "--tls-dir",
        metavar="DIR",
        help="Folder of certificates that `spae certs` wrote. Default: the certificates of dask's configuration.",
        show_default=False,
        rich_help_panel=WHERE,
    ),
]
MemoryOption = Annotated[
    str | None,
    typer.Option(
        "--memory",
        metavar="BYTES",
        callback=check_memory,
        help="Memory limit of each process, such as 2GB. Default: an equal share of the machine's memory.",
        show_default=False,
        rich_help_panel=WHERE,
    ),
]
PerformanceOption = Annotated[
    str | None,
    typer.Option(
        "--performance-report",
        metavar="FILE.html",
        help="Write dask's HTML report of the cluster's work if the command succeeds.",
        show_default=False,
        rich_help_panel=WHERE,
    ),
]


@dataclass(frozen=True)
class TargetOptions:
    """Cluster of a verb, and the certificates for it."""

    cluster: ClusterOption = None
    tls_dir: TlsDirOption = None

    def place(self, memory: str | None, performance: "PerformanceReport | None" = None) -> "Target":
        """The same with so much memory, and with dask's page about it."""
        from spae_dask.cli.performance import NO_REPORT
        from spae_dask.cli.target import Target

        return Target(self.cluster, memory, self.tls_dir, performance or NO_REPORT)
