"""A run that checkpoints are of."""

from spae_dask.storage.checkpoints.checkpoint_record import Job

JOB = Job("fit", {"name": "x"}, {"n_components": 2, "n_nonzero": (3, 4)}, {"spae_dask": "1"})
