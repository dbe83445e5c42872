"""A run that keeps its states: where each pass of it stores them, and what is done when one is lost. Pure.

A pass has a folder, named by its number, its name and a key: the digest of its recipe, of its spans and of how they are
merged. What is in there, see `kept_pass`; of a finished pass it is one state. Nothing depends on workers.
"""

import json
import re
import warnings
from typing import Any

from spae_dask.accumulators.base import Accumulator
from spae_dask.blocks import RowBlocks, nbytes_of_rows
from spae_dask.engine.chosen import ChosenBlocks
from spae_dask.engine.kept_pass import KeptPass, LostState
from spae_dask.engine.layout import PassLayout
from spae_dask.engine.merge_tree import MergeTree
from spae_dask.engine.recipe_digest import digest_of
from spae_dask.engine.shares import AllWhole, Lacking, Share
from spae_dask.engine.state_store import StateStore
from spae_dask.errors import CheckpointWarning, StorageError

DESCRIPTION = "about.json"

MOST_LOSSES = 30
"""Times that a pass begins anew because a state it was to go on from was not to be had."""


class Checkpoint:
    """The stored states of one run, pass after pass.

    Parameters
    ----------
    store : StateStore
        Of this run: whoever opens it has made sure that data and parameters are those it was begun with.
    share : Share, optional
        Which spans to sweep, if not all that are missing.
    run : str
        What tells this run from those of other data and parameters. Their states are never taken for each other's, even
        if two runs begin in one place at the same moment.
    n_passes : int, optional
        How many the run makes, if that is known before.

    Attributes
    ----------
    n_swept : int
        Spans that this process had to sweep as its share.
    number : int
        Passes begun.
    """

    def __init__(
        self, store: StateStore, share: Share | None = None, run: str = "", n_passes: int | None = None
    ) -> None:
        self.store = store
        self.share = share
        self.run = run
        self.n_passes = n_passes
        self.n_swept = 0
        self.number = 0
        self._losses = 0

    def begin(self, name: str, recipe: Accumulator[Any], layout: PassLayout, source: RowBlocks) -> KeptPass:
        """The next pass; its folder is made if it is not there."""
        self.number += 1
        chosen = source.numbers if isinstance(source, ChosenBlocks) else None
        key = digest_of((self.run, recipe, layout.spans, layout.fan_in, chosen))
        start = f"{self.number:02d}-"
        folder = f"{start}{re.sub('[^a-z0-9]+', '-', name.lower()).strip('-')}-{key[:16]}"
        self._losses = 0
        others = [each for each in self.store.folders() if each.startswith(start) and each != folder]
        if others and self.share is not None:
            raise StorageError(
                f"pass {self.number} ({name}) of the checkpoint {self.store.describe()} was begun by a process that "
                "computes other bits than this one. Run all parts on the same data, on machines of one kind, with the "
                f"same libraries; or begin anew: `spae checkpoint rm {self.store.describe()}`."
            )
        if others:
            warnings.warn(
                f"pass {self.number} ({name}) of the checkpoint {self.store.describe()} was begun by a process that "
                "computes other bits than this one, as another kind of machine does. This pass starts anew.",
                CheckpointWarning,
                stacklevel=2,
            )
        self.store.make(folder)
        there = self.store.files(folder)
        if DESCRIPTION not in there:
            about = {
                "name": name,
                "n_spans": len(layout.spans),
                "fan_in": layout.fan_in,
                "n_rows": source.shape[0],
                "nbytes": nbytes_of_rows(source, source.shape[0]),
                "state_nbytes": layout.footprint.state_nbytes,
            }
            self.store.write(f"{folder}/{DESCRIPTION}", [json.dumps(about, indent=1).encode()])
        return KeptPass(self.store, folder, key, MergeTree(len(layout.spans), layout.fan_in), fresh=not there)

    def lost(self, kept: KeptPass, lost: LostState, recipe: Accumulator[Any]) -> None:
        """A state was not to be had: if it cannot be used, remove all such, and say so.

        Raises
        ------
        StorageError
            If that happens again and again.
        """
        self._losses += 1
        if self._losses > MOST_LOSSES:
            raise StorageError(
                f"the states stored in {self.store.describe()} keep getting lost. Check that disk, make sure that "
                "nothing else removes files there, and run again."
            )
        if lost.args[1] is None:
            return  # another run has merged it, or its folder was not listed whole
        for path, why in kept.without_unusable(recipe):
            warnings.warn(
                f"{self.store.describe()}/{path} cannot be used: {why}. Its rows are read again.",
                CheckpointWarning,
                stacklevel=2,
            )

    def end(self) -> None:
        """A pass is whole.

        Raises
        ------
        AllWhole
            If it is the last one, and this process does a part of the run.
        """
        if self.share is not None and self.share.number and self.number == self.n_passes:
            raise AllWhole

    def lacking(self, name: str, kept: KeptPass) -> Lacking:
        """What the pass at hand lacks."""
        n_spans = kept.tree.n_spans
        missing = set(range(n_spans)) - kept.tree.covered(kept.stored())
        return Lacking(name, self.number, n_spans, tuple(sorted(missing)), self.n_swept)
