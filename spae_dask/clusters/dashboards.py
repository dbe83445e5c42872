"""Link to the pages of a scheduler, if it serves any. Dask offers a link in any case."""

from contextlib import suppress

from distributed import Client, Scheduler

ANSWER_SECONDS = 10
"""Longest time, in seconds, that a scheduler may take to answer. The link is left out after that."""


def dashboard_link(client: Client) -> str | None:
    """Address of the dashboard of a client's scheduler; None if it has none, or does not say."""
    with suppress(Exception):  # whatever is wrong with the scheduler is told by what needs it
        if client.sync(client._run_on_scheduler, _has_pages, callback_timeout=ANSWER_SECONDS):
            return str(client.dashboard_link)
    return None


def _has_pages(dask_scheduler: Scheduler) -> bool:
    """Return True if the scheduler serves bokeh's pages. Without bokeh it serves its health and metrics only."""
    applications = dask_scheduler.http_application.applications
    return any(kind.__name__ == "BokehTornado" for each in applications for kind in type(each).__mro__)
