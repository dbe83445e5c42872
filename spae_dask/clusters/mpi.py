"""Ranks of MPI as a Dask cluster. The only file that knows dask-mpi and mpi4py."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import dask

from spae_dask.clusters.specs import MpiSpec
from spae_dask.errors import InvalidInput

try:
    from mpi4py import MPI
except ModuleNotFoundError:
    raise
except (ImportError, RuntimeError) as error:  # mpi4py is there, and the library of MPI that it calls is not
    raise InvalidInput(
        f"the MPI library cannot be loaded ({' '.join(str(error).split())}). Install one, such as "
        "Debian's openmpi-bin, or load the module of your site (`module load openmpi`)."
    ) from error
from dask_mpi import initialize, send_close_signal

FEWEST = 3
"""A scheduler, the command and a worker."""


@contextmanager
def joined_ranks(spec: MpiSpec) -> Iterator[str | None]:
    """In rank 1, yield the scheduler's address, and end the other ranks with the block; those yield None at the end.

    Rank 0 is the scheduler, and ranks from 2 on are workers: they do their work in here.

    Raises
    ------
    InvalidInput
        If there are fewer than three ranks.
    """
    n_ranks = MPI.COMM_WORLD.Get_size()
    if n_ranks < FEWEST:
        raise InvalidInput(
            f"spae mpi needs at least {FEWEST} MPI ranks, but has {n_ranks}. One is the scheduler, one runs "
            "the command, and the others are workers. Start it with `mpirun -n 4 spae mpi ...`."
        )
    if MPI.COMM_WORLD.Get_rank() != 1:  # they log when all connections close at the end
        logging.getLogger("distributed").setLevel(logging.CRITICAL)
        logging.getLogger("tornado").setLevel(logging.CRITICAL)
    commands = initialize(
        interface=spec.interface,
        nthreads=spec.threads,
        local_directory=spec.scratch,
        memory_limit=spec.memory or "auto",
        dashboard=False,
        dashboard_address="127.0.0.1:0",
        exit=False,
    )
    if not commands:
        yield None
        return
    try:
        yield str(dask.config.get("scheduler_address"))
    finally:
        send_close_signal()
