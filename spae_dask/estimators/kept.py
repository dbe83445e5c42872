"""The state of a fit beside its encoder on disk, and back as a stream to which rows are added.

Its bytes are those of a checkpoint's file, so that nothing is believed of them that the recipe does not allow.
"""

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from spae_dask.errors import InvalidInput, StorageError
from spae_dask.estimators.streams import RowStream
from spae_dask.passes.accumulators.base import has_exact_sums
from spae_dask.passes.online import OnlinePass
from spae_dask.passes.state_file import UnusableState, read_state, state_bytes
from spae_dask.passes.sweep import Swept
from spae_dask.storage.artifacts.artifact import damaged, digest_of
from spae_dask.storage.artifacts.artifact_reading import read_state_bytes
from spae_dask.strategies.parameters import FitParameters
from spae_dask.strategies.table import STRATEGIES

KEY, NODE = "encoder", (0, 0)
"""Names of the state in its file: there is one, of all rows."""


@dataclass(frozen=True)
class KeptState:
    """State that an encoder was stored with, which stays on the disk until rows are added to it.

    Attributes
    ----------
    path : str
        Path or URL of the encoder.
    digest : str
        SHA-256 of its bytes.
    record : dict
        Its description, as the encoder has it.
    """

    path: str
    digest: str
    record: dict[str, Any]

    @classmethod
    def of(cls, record: Mapping[str, Any], path: str) -> "KeptState":
        """The state that a record describes."""
        return cls(path, str(record.get("sha256")), dict(record))

    def stream(self, params: FitParameters, n_features: int) -> RowStream:
        """Read it.

        Raises
        ------
        InvalidInput
            If it is not the state of such a fit, or not that of the encoder that was loaded.
        StorageError
            If it cannot be read.
        """
        found = read_state_bytes(self.path)
        if digest_of(found) != self.digest:
            raise InvalidInput(
                f"the encoder {self.path} was written again after it was loaded. Load it again, and then add the rows."
            )
        try:
            strategy, n_rows = STRATEGIES[self.record["strategy"]], int(self.record["n_rows"])
            dtype = None if self.record["dtype"] is None else np.dtype(self.record["dtype"])
            recipe = strategy.batch_recipe(params, n_features, n_rows, dtype if self.record["exact_sums"] else None)
            state = read_state(io.BytesIO(found.data), KEY, NODE, recipe).state
            online = OnlinePass(recipe, state, n_rows)
            return RowStream(strategy.name, online, params.seed, int(self.record["bytes_read"]), dtype)
        except (KeyError, TypeError, ValueError, NotImplementedError) as error:
            raise InvalidInput(damaged(self.path, f"its attribute 'state' is wrong ({error})")) from error
        except UnusableState as error:
            raise StorageError(damaged(self.path, f"its state cannot be used: {error}")) from error


def as_stored(stream: RowStream) -> tuple[npt.NDArray[np.uint8], dict[str, Any]]:
    """Bytes of the state of a stream, and its description."""
    pieces = state_bytes(Swept(stream.online.state), KEY, NODE)
    stored = np.frombuffer(b"".join(pieces), dtype=np.uint8)
    return stored, {
        "strategy": stream.strategy,
        "n_rows": stream.online.n_rows,
        "dtype": None if stream.dtype is None else stream.dtype.str,
        "exact_sums": has_exact_sums(stream.online.recipe),
        "bytes_read": stream.nbytes,
        "sha256": digest_of(stored),
    }
