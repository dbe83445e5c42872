"""Errors of the Kubernetes API server, explained with a remedy."""

from collections.abc import Iterator
from contextlib import contextmanager

import kr8s

from spae_dask.errors import ClusterUnavailable

UNKNOWN_USER, NO_RIGHT, NOT_FOUND = 401, 403, 404
"""Codes of permanent answers, which a retry does not change."""


@contextmanager
def told(namespace: str) -> Iterator[None]:
    """Have whatever goes wrong between here and the API server end in an error of ours.

    Raises
    ------
    ClusterUnavailable
        If any error of the server arises, which is its cause.
    """
    try:
        yield
    except Exception as error:  # of kr8s, httpx, sockets
        raise _unavailable(namespace, error) from error


def is_refusal(error: BaseException | None) -> bool:
    """Return True if the server refused: the user is unknown, or has no right to it, or there is no such object."""
    return _status(error) in (UNKNOWN_USER, NO_RIGHT, NOT_FOUND)


def said(error: BaseException) -> str:
    """An error in one line."""
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__


def _unavailable(namespace: str, error: Exception) -> ClusterUnavailable:
    status = _status(error)
    if status == NO_RIGHT:
        return ClusterUnavailable(
            f"Kubernetes does not allow this user what it takes in the namespace {namespace}: {said(error)}. Have an "
            "administrator give you the role of deploy/kubernetes/rbac.yaml there."
        )
    if status == UNKNOWN_USER:
        return ClusterUnavailable(
            f"Kubernetes does not know who asks, in the namespace {namespace}: {said(error)}. Sign in again: the token "
            "or certificate of your kubeconfig is wrong, or has expired."
        )
    if status == NOT_FOUND:
        return ClusterUnavailable(
            f"Kubernetes knows no DaskCluster in the namespace {namespace}: {said(error)}. Check the namespace, and "
            "install the Dask operator."
        )
    return ClusterUnavailable(
        f"no Dask cluster could be started in the namespace {namespace} of Kubernetes: {said(error)}. Check that "
        "`kubectl get daskclusters` works from here, and that the Dask operator is installed."
    )


def _status(error: BaseException | None) -> int | None:
    if isinstance(error, kr8s.ServerError) and error.response is not None:
        return int(error.response.status_code)
    return None
