"""Notebook view of an estimator: scikit-learn's diagram and, after a fit, its certificate."""

from typing import Any


class CertificateRepr:
    """Notebook view for an estimator with ``certificate_``. It comes before ``BaseEstimator`` among the bases."""

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] += self._certificate_html()
        return bundle

    @property
    def _repr_html_(self) -> Any:
        diagram = super()._repr_html_  # type: ignore[misc]  # raises AttributeError if diagrams are turned off
        return lambda: diagram() + self._certificate_html()

    def _certificate_html(self) -> str:
        # looked up in the dictionary, because access would make a stream compute its encoder
        certificate = self.__dict__.get("certificate_")
        return "" if certificate is None else str(certificate._repr_html_())
