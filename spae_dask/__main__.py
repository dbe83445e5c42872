"""``python -m spae_dask`` is ``spae``."""

from spae_dask.cli.main import run

if __name__ == "__main__":
    run()
