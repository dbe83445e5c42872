"""The checkpoint of a run: the folder of each pass, and the treatment of states that are found missing. Pure.

A pass has a folder, named by its number, its name and a key: the digest of its recipe, of its spans and of how they are
merged. `pass_checkpoint` describes the files in it; a finished pass has one state. Nothing depends on workers.
"""

import json
import re
from collections import Counter
from typing import Any

from spae_dask.accumulators.base import Accumulator
from spae_dask.blocks import RowBlocks, nbytes_of_rows
from spae_dask.engine.array_parts import ArrayPart, MissingSpans, PassesComplete
from spae_dask.engine.chosen import ChosenBlocks
from spae_dask.engine.layout import PassLayout
from spae_dask.engine.merge_tree import MergeTree, Node
from spae_dask.engine.pass_checkpoint import MissingNode, PassCheckpoint
from spae_dask.engine.recipe_digest import digest_of
from spae_dask.engine.state_store import StateStore
from spae_dask.errors import CheckpointWarning, StorageError, warn

DESCRIPTION = "about.json"

MOST_LOSSES = 30
"""Times that one state may be found missing in a pass."""


class Checkpoint:
    """The stored states of one run, pass after pass.

    Parameters
    ----------
    store : StateStore
        Of this run: whoever opens it has made sure that data and parameters are those it was begun with.
    part : ArrayPart, optional
        Part of every pass that this process makes; all missing spans by default.
    run : str
        Identity of the data and parameters of this run. States of two runs are never taken for each other's, even if
        both begin in one place at the same moment.
    n_passes : int, optional
        Number of passes of the run, if it is known.

    Attributes
    ----------
    n_swept : int
        Number of spans that this process had to reduce as its part.
    number : int
        Number of passes begun.
    """

    def __init__(
        self, store: StateStore, part: ArrayPart | None = None, run: str = "", n_passes: int | None = None
    ) -> None:
        self.store = store
        self.part = part
        self.run = run
        self.n_passes = n_passes
        self.n_swept = 0
        self.number = 0
        self._losses: Counter[Node] = Counter()

    def begin(self, name: str, recipe: Accumulator[Any], layout: PassLayout, source: RowBlocks) -> PassCheckpoint:
        """Begin the next pass; its folder is made if it is not there."""
        self.number += 1
        chosen = source.numbers if isinstance(source, ChosenBlocks) else None
        key = digest_of((self.run, recipe, layout.spans, layout.fan_in, chosen))
        start = f"{self.number:02d}-"
        folder = f"{start}{re.sub('[^a-z0-9]+', '-', name.lower()).strip('-')}-{key[:16]}"
        self._losses.clear()
        others = [each for each in self.store.folders() if each.startswith(start) and each != folder]
        if others and self.part is not None:
            raise StorageError(
                f"pass {self.number} ({name}) of the checkpoint {self.store.describe()} was begun by a process that "
                "computes other bits than this one. Run all parts on the same data, on machines of one kind, with the "
                f"same libraries; or begin anew: `spae checkpoint rm {self.store.describe()}`."
            )
        if others:
            warn(
                f"pass {self.number} ({name}) of the checkpoint {self.store.describe()} was begun by a process that "
                "computes other bits than this one, as another kind of machine does. This pass starts anew.",
                CheckpointWarning,
            )
        self.store.make(folder)
        if DESCRIPTION not in self.store.files(folder):
            about = {
                "name": name,
                "n_spans": len(layout.spans),
                "fan_in": layout.fan_in,
                "n_rows": source.shape[0],
                "nbytes": nbytes_of_rows(source, source.shape[0]),
                "state_nbytes": layout.footprint.state_nbytes,
            }
            self.store.write(f"{folder}/{DESCRIPTION}", [json.dumps(about, indent=1).encode()])
        return PassCheckpoint(self.store, folder, key, MergeTree(len(layout.spans), layout.fan_in))

    def found_missing(self, kept: PassCheckpoint, missing: MissingNode, recipe: Accumulator[Any]) -> None:
        """Note that a state is missing; if it is unusable, remove all unusable ones with a warning.

        Raises
        ------
        StorageError
            If one state is found missing again and again.
        """
        node, why = missing.args
        self._losses[node] += 1
        if self._losses[node] > MOST_LOSSES:
            raise StorageError(
                f"the states stored in {self.store.describe()} keep getting lost. Check that disk, make sure that "
                "nothing else removes files there, and run again."
            )
        if why is None:
            return  # it was merged into another state meanwhile
        for path, why in kept.without_unusable(recipe):
            warn(f"{self.store.describe()}/{path} cannot be used: {why}. Its rows are read again.", CheckpointWarning)

    def end(self) -> None:
        """Note that a pass is complete.

        Raises
        ------
        PassesComplete
            If it is the last pass, and this process makes a part of the run.
        """
        if self.part is not None and self.part.number and self.number == self.n_passes:
            raise PassesComplete

    def missing(self, name: str, tree: MergeTree, stored: frozenset[Node]) -> MissingSpans:
        """Spans that the present pass misses."""
        missing = set(range(tree.n_spans)) - tree.covered(stored)
        return MissingSpans(name, self.number, tree.n_spans, tuple(sorted(missing)), self.n_swept)
