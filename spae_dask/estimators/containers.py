"""Support of ``set_output`` for lazy results: the pandas frame of a lazy result is a dask DataFrame.

scikit-learn would compute a lazy result to put it into a frame. Its own wrapping of eager results stays as it is.
"""

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

from sklearn.base import TransformerMixin
from sklearn.utils._set_output import _get_output_config, _wrap_data_with_container

from spae_dask.errors import InvalidInput
from spae_dask.estimators.applying import is_lazy

if TYPE_CHECKING:
    import dask.array as da

Class = TypeVar("Class", bound=type)


def lazy_frames(cls: Class) -> Class:
    """Class decorator for transformers whose results may be dask arrays."""
    cls.transform = _keeping_lazy(cls.transform)  # type: ignore[attr-defined]
    cls.fit_transform = _fit_transform  # type: ignore[attr-defined]
    return cls


def _fit_transform(self: Any, X: Any, y: Any = None, **fit_params: Any) -> Any:
    """Fit, and return the codes of the same rows, as ``transform`` does."""
    covariates = getattr(self, "covariates", None)
    if covariates is not None:
        return self.fit(X, y, **fit_params).transform(X, covariates=covariates)
    # scikit-learn's own, without its wrapping: transform has made the container
    return TransformerMixin.fit_transform.__wrapped__(self, X, y, **fit_params)


def _keeping_lazy(wrapped: Callable[..., Any]) -> Callable[..., Any]:
    plain = wrapped.__wrapped__  # type: ignore[attr-defined]  # without scikit-learn's wrapping

    @wraps(plain)
    def transform(self: Any, X: Any, *args: Any, **given: Any) -> Any:
        made = plain(self, X, *args, **given)
        if is_lazy(made):
            return in_dask_frame(made, X, self)
        return _wrap_data_with_container("transform", made, X, self)

    return transform


def in_dask_frame(made: "da.Array", X: Any, estimator: Any) -> Any:
    """A lazy result as it is, or as a dask DataFrame where ``set_output`` asks for pandas.

    Raises
    ------
    InvalidInput
        If it asks for frames that are never lazy.
    """
    wanted = _get_output_config("transform", estimator)["dense"]
    if wanted == "default":
        return made
    if wanted != "pandas":
        raise InvalidInput(
            f"set_output(transform={wanted!r}) cannot hold a lazy result. For lazy input use 'default', a "
            "dask array, or 'pandas', a dask DataFrame. Or compute the input first."
        )
    try:
        import dask.dataframe as dd
    except ImportError as error:
        raise InvalidInput(
            "set_output(transform='pandas') on lazy input makes a dask DataFrame, which needs "
            '`pip install "spae-dask[tabular]"`.'
        ) from error
    names = list(estimator.get_feature_names_out())
    index = X.index if isinstance(X, dd.DataFrame) else None
    return dd.from_dask_array(made.rechunk({1: -1}), columns=names, index=index)
