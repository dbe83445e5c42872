"""Where a scheduler shows its pages, if it does: whatever it serves, dask has a link."""

from contextlib import suppress

from distributed import Client, Scheduler

ANSWER_SECONDS = 10
"""How long a scheduler may take to say. A link is not waited for longer."""


def dashboard_link(client: Client) -> str | None:
    """Address of the dashboard of a client's scheduler; None if it has none, or does not say."""
    with suppress(Exception):  # whatever is wrong with the scheduler is told by what needs it
        if client.sync(client._run_on_scheduler, _has_pages, callback_timeout=ANSWER_SECONDS):
            return str(client.dashboard_link)
    return None


def _has_pages(dask_scheduler: Scheduler) -> bool:
    """Whether pages are served by bokeh: started without them, or without bokeh, it serves its health and metrics."""
    applications = dask_scheduler.http_application.applications
    return any(kind.__name__ == "BokehTornado" for each in applications for kind in type(each).__mro__)
