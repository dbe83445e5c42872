"""Drives the merge tree of a pass from the client: it submits whatever is missing, until the root is finished.

For every node the driver knows whether its state is stored, whether a future for it runs, and whether that future has
finished. It submits all leaves at once, and the merge of a node when the futures of all its children have finished. It
lets go of the children then: the scheduler keeps their states for as long as the merge needs them. Everything else
follows from the same rule:

* A backup task is a second future for a span. The first that finishes counts, and the other is cancelled.
* A state that is missing in the store ends its task with `MissingNode`. The driver forgets the node, lists the store,
  and submits what is missing now.
* A resumed pass begins with the stored nodes as its leaves.
* A part of an array job drives the nodes that its spans can complete, and no others.

A state that is lost with its worker is computed again by dask. With a checkpoint, the span's task looks into the store
first: it loads its own state, or ends with `MissingNode` if the state was merged already.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any
from uuid import uuid4

import dask
from dask.delayed import Delayed, delayed
from distributed import Client, Future, as_completed
from distributed.scheduler import KilledWorker

from spae_dask.blocks import LazyRowBlocks, RowBlocks, nbytes_of_rows
from spae_dask.engine.cancelling import leaf_on_worker
from spae_dask.engine.monitor import Monitor, killed_worker
from spae_dask.engine.versions import run_if_same_version, software
from spae_dask.errors import ClusterUnavailable
from spae_dask.passes.accumulators.base import Accumulator
from spae_dask.passes.checkpoint import MissingNode, PassCheckpoint
from spae_dask.passes.events import RowsDone, RunAgain
from spae_dask.passes.layout import PassLayout
from spae_dask.passes.merge_tree import MergeTree, Node
from spae_dask.passes.spans import Span
from spae_dask.passes.sweep import BlockWatcher, Swept
from spae_dask.passes.tasks import Gate, HeldBlocks, PassTasks, SpanWork, leaf_task, merge_task, work_task
from spae_dask.passes.threads import one_blas_thread


@dataclass(frozen=True)
class TreePass:
    """One pass as it is to be made.

    Parameters
    ----------
    name : str
        Name of the pass.
    recipe : Accumulator
        Accumulator of the pass.
    layout : PassLayout
        Spans of the pass.
    tree : MergeTree
        Merge tree over the spans.
    kept : PassCheckpoint or None
        Stored states.
    stored : frozenset of Node
        Nodes that are stored.
    ends : frozenset of Node
        Nodes to make and store, if this process makes a part of the pass; empty if the root is wanted.
    """

    name: str
    recipe: Accumulator[Any]
    layout: PassLayout
    tree: MergeTree
    kept: PassCheckpoint | None = None
    stored: frozenset[Node] = frozenset()
    ends: frozenset[Node] = frozenset()

    @cached_property
    def targets(self) -> list[Node]:
        """Nodes to make: the root, or the ends of a part that no stored state holds."""
        if not self.ends:
            return [self.tree.root]
        return sorted(node for node in self.ends if self.stored.isdisjoint(self.tree.holders(node)))

    def is_leaf(self, node: Node) -> bool:
        """Tell whether the state of a node is not merged from others."""
        return node[0] == 0 or node in self.stored

    def span(self, node: Node) -> Span | None:
        """Span to reduce for a leaf; None if the leaf is loaded."""
        return None if node in self.stored else self.layout.spans[node[1]]


@dataclass(frozen=True)
class Calls:
    """Makes the calls of tasks over one source.

    Parameters
    ----------
    source : RowBlocks
        The matrix.
    at_once : int
        Span tasks that run at once in one process.
    watch : callable or None
        Receives every finished block, if tasks run in threads of this process; None on a cluster.
    lazy : list of Delayed or None
        Blocks of a dask array. They are made once a pass, since their keys are new every time.
    """

    source: RowBlocks
    at_once: int
    watch: BlockWatcher | None
    lazy: list[Delayed] | None

    @classmethod
    def over(cls, source: RowBlocks, at_once: int, watch: BlockWatcher | None) -> "Calls":
        """Calls of one pass."""
        if isinstance(source, LazyRowBlocks):
            return cls(HeldBlocks.like(source), at_once, watch, source.lazy_blocks())
        return cls(source, at_once, watch, None)

    def gate(self) -> Gate:
        """A new limit of tasks at once."""
        return Gate(uuid4().hex, self.at_once)

    def shared(self, job: TreePass) -> PassTasks:
        """Everything but the source that the tasks of a pass share."""
        return PassTasks(job.recipe, job.kept, self.gate(), job.layout.prefetches, self.watch, job.ends)

    def blocks(self, span: Span | None) -> list[Delayed]:
        """Delayed blocks of a span of a dask array."""
        return [] if span is None or self.lazy is None else self.lazy[span.first_block : span.last_block]


def _key(kind: str, name: str, token: str, node: Node) -> str:
    """Key of a task. The scheduler groups keys by ``kind`` and the words of ``name``; dask orders them by number."""
    level, number = node
    where = f"{level}-{number:05d}" if level else f"{number:05d}"
    return f"{kind}-{name.replace(' ', '-')}-{token}-{where}"


def _keys(kind: str, name: str, nodes: Sequence[Node]) -> list[str]:
    """New keys of tasks."""
    token = uuid4().hex[:8]
    return [_key(kind, name, token, node) for node in nodes]


def _constant(kind: str, name: str, value: Any) -> Delayed:
    """A task that holds a value, so that no other task carries it."""
    return delayed(value, name=_keys(kind, name, [(0, 0)])[0], traverse=False)


def _call(function: Callable[..., Any], key: str, *args: Any) -> Delayed:
    # no argument is a list of delayed objects: dask would copy the whole graph below each of them
    return delayed(run_if_same_version, pure=False)(function, software(), *args, dask_key_name=key)


def run_unpacked(function: Callable[..., Any], wanted: str, args: Sequence[Any]) -> Any:
    """Call `run_if_same_version` with a tuple: `Client.map` takes the same number of arguments for all tasks."""
    return run_if_same_version(function, wanted, *args)


class Threads:
    """Runs tasks in threads of this process, where no worker is lost and no read is made twice."""

    def __init__(self, calls: Calls) -> None:
        self.calls = calls

    def run_pass(self, job: TreePass) -> list[Swept]:
        """Give the states of the targets.

        Raises
        ------
        MissingNode
            If a stored state cannot be loaded.
        """
        source = _constant("source", job.name, self.calls.source)
        shared = _constant("pass", job.name, self.calls.shared(job))
        token = uuid4().hex[:8]
        return self._compute([self._state(job, node, token, source, shared) for node in job.targets])

    def _state(self, job: TreePass, node: Node, token: str, source: Delayed, shared: Delayed) -> Delayed:
        """Task that makes the state of a node, of those below it."""
        key = _key("node", job.name, token, node)
        if job.is_leaf(node):
            span = job.span(node)
            return _call(leaf_task, key, source, shared, node, span, *self.calls.blocks(span))
        below = (self._state(job, child, token, source, shared) for child in job.tree.children(node))
        return _call(merge_task, key, shared, node, *below)

    def run_work(self, work: SpanWork[Any], spans: Sequence[Span], name: str) -> list[Any]:
        """Give the results of ``work`` on every span."""
        held = [_constant(kind, name, each) for kind, each in (("source", self.calls.source), ("work", work))]
        shared = (*held, self.calls.gate(), self.calls.watch)
        keys = _keys("span", name, [(0, i) for i in range(len(spans))])
        return self._compute(
            [
                _call(work_task, key, *shared, span, *self.calls.blocks(span))
                for key, span in zip(keys, spans, strict=True)
            ]
        )

    def _compute(self, tasks: list[Delayed]) -> list[Any]:
        # A separate pool: an interrupt while dask's own pool starts a thread would leave a thread that nothing ends.
        with one_blas_thread(), ThreadPoolExecutor(self.calls.at_once) as pool:
            return list(dask.compute(*tasks, scheduler="threads", pool=pool, optimize_graph=False))


class Cluster:
    """Runs tasks on the workers of a cluster.

    Parameters
    ----------
    client : distributed.Client
        Client of the cluster.
    calls : Calls
        Tasks over the source.
    name : str
        Name of the pass.
    n_spans : int
        Number of spans to finish.
    emit : callable
        Receives events.
    """

    def __init__(
        self, client: Client, calls: Calls, name: str, n_spans: int, emit: Callable[[RowsDone | RunAgain], None]
    ) -> None:
        self.client = client
        self.calls = calls
        self.name = name
        self.emit = emit
        self.spans: dict[str, Span] = {}
        self.monitor = Monitor(client, name, self.spans, n_spans, emit)
        self._live: dict[str, Future] = {}

    def run_pass(self, job: TreePass, stored_now: Callable[[MissingNode], frozenset[Node]]) -> list[Swept]:
        """Give the states of the targets.

        Parameters
        ----------
        job : TreePass
            The pass.
        stored_now : callable
            Lists the nodes that are stored, after one was found missing.
        """
        with self._until_end():
            return _Drive(self, job, stored_now).run()

    def run_work(self, work: SpanWork[Any], spans: Sequence[Span]) -> list[Any]:
        """Give the results of ``work`` on every span; no span has two tasks at once, since the work may write."""
        keys = _keys("span", self.name, [(0, i) for i in range(len(spans))])
        number = {key: i for i, key in enumerate(keys)}
        self.spans.update(zip(keys, spans, strict=True))
        results: dict[int, Any] = {}
        with self._until_end():
            held, gate = self.hold(source=self.calls.source, work=work), self.calls.gate()
            arguments = [(*held, gate, None, span, *self.calls.blocks(span)) for span in spans]
            for future, value in self.results(self.submit(work_task, keys, arguments)):
                results[number[future.key]] = value
                self.is_done(self.spans[future.key])
                self.release(future)  # its worker may be lost, and dask would repeat the work for a result that is here
        return [results[i] for i in range(len(spans))]

    def hold(self, **values: Any) -> list[Future]:
        """Send values to the cluster once, as tasks on which others depend."""
        return self._kept(self.client.compute([_constant(kind, self.name, each) for kind, each in values.items()]))

    def submit(
        self, function: Callable[..., Any], keys: Sequence[str], arguments: Sequence[Sequence[Any]]
    ) -> list[Future]:
        """Submit one task for each key, in one message."""
        if not keys:
            return []
        if any(isinstance(each, Delayed) for args in arguments for each in args):
            tasks = [_call(function, key, *args) for key, args in zip(keys, arguments, strict=True)]
            return self._kept(self.client.compute(tasks, optimize_graph=False))
        n = len(keys)
        calls = [function] * n, [software()] * n, [tuple(each) for each in arguments]
        return self._kept(self.client.map(run_unpacked, *calls, key=list(keys), pure=False))

    def release(self, *futures: Future) -> None:
        """Let go of results. A task that runs for nobody else is cancelled."""
        for future in futures:
            self._live.pop(future.key, None)
            future.release()

    def results(self, futures: Sequence[Future]) -> Iterator[tuple[Future, Any]]:
        """Yield futures and their results as they come."""
        # by default dask uses the loop of the newest client, and two threads would write to one socket
        for future, value in self.monitor.completed(as_completed(futures, loop=self.client.loop, with_results=True)):
            if isinstance(value, CancelledError):
                raise value
            yield future, value

    def is_done(self, span: Span) -> None:
        """Tell that a span is done."""
        self.monitor.progressed(1)
        self.emit(RowsDone(span.n_rows, nbytes_of_rows(self.calls.source, span.n_rows)))

    def _kept(self, futures: Iterable[Future]) -> list[Future]:
        found = list(futures)
        self._live.update((future.key, future) for future in found)
        return found

    @contextmanager
    def _until_end(self) -> Iterator[None]:
        """Release all futures in the end, and turn the errors of a lost cluster into errors of the pass."""
        try:
            yield
        except KilledWorker as error:
            raise killed_worker(self.client, self.name, self.spans, error) from error
        except (TimeoutError, ConnectionError, CancelledError) as error:
            if any(future.status == "error" for future in self._live.values()):
                raise  # the error of a task, such as that of a dask array's storage
            raise ClusterUnavailable(f"{self.name}: the scheduler stopped answering: {error}") from error
        finally:
            self.release(*self._live.values())


class _Drive:
    """One pass on a cluster, and the futures of the nodes of its merge tree."""

    def __init__(self, cluster: Cluster, job: TreePass, stored_now: Callable[[MissingNode], frozenset[Node]]) -> None:
        self.cluster = cluster
        self.job = job
        self._stored_now = stored_now
        self._told = set(job.tree.covered(job.stored))
        self._shared = cluster.calls.shared(job)
        self._held = self._hold()
        self._futures: dict[Node, Future] = {}
        self._backups: dict[Node, Future] = {}
        self._finished: set[Node] = set()
        self._node_of: dict[str, Node] = {}
        self._waiting = as_completed([], loop=cluster.client.loop)
        cluster.monitor.back_up = self._back_up

    def run(self) -> list[Swept]:
        """Submit tasks until the targets are finished; give their states."""
        self._due = set(self.job.targets)
        while True:
            self._submit()
            for future in self.cluster.monitor.completed(self._waiting):
                self._completed(future)
                if not self._waiting.has_ready():
                    self._submit()
            targets = [self._futures[node] for node in self.job.targets]
            try:
                found = {future.key: swept for future, swept in self.cluster.results(targets)}
            except MissingNode as error:  # a state was lost with its worker after it was finished
                self._missing(error, [node for node in self.job.targets if self._futures[node].status == "error"])
            else:
                return [found[future.key] for future in targets]

    def _submit(self) -> None:
        """Submit all that is missing below the nodes that are due."""
        leaves: set[Node] = set()
        merges: set[Node] = set()
        for node in self._due:
            self._plan(node, leaves, merges)
        self._due = set()
        self._submit_leaves(sorted(leaves, key=lambda node: self.job.tree.spans(node).start))
        self._submit_merges(sorted(merges))

    def _plan(self, node: Node, leaves: set[Node], merges: set[Node]) -> None:
        if node in self._futures:
            return
        if self.job.is_leaf(node):
            leaves.add(node)
            return
        children = self.job.tree.children(node)
        if self._finished.issuperset(children):
            merges.add(node)
        else:
            for child in children:
                self._plan(child, leaves, merges)

    def _submit_leaves(self, nodes: Sequence[Node]) -> None:
        self._watch(nodes, self._leaves("span", nodes, self._held))

    def _submit_merges(self, nodes: Sequence[Node]) -> None:
        """Submit merges before all spans, so that states do not pile up, and let go of the merged states."""
        children = [self.job.tree.children(node) for node in nodes]
        shared = self._held[1]
        arguments = [
            (shared, node, *(self._futures[child] for child in each))
            for node, each in zip(nodes, children, strict=True)
        ]
        with dask.annotate(priority=_above(dask.get_annotations().get("priority", 0))):
            futures = self.cluster.submit(merge_task, _keys("merge", self.job.name, nodes), arguments)
        self._watch(nodes, futures)
        for node in chain.from_iterable(children):
            self._finished.discard(node)
            self.cluster.release(self._futures.pop(node))  # the scheduler keeps it for the merge

    def _leaves(self, kind: str, nodes: Sequence[Node], held: Sequence[Future]) -> list[Future]:
        keys = _keys(kind, self.job.name, nodes)
        spans = [self.job.span(node) for node in nodes]
        arguments = [
            (*held, node, span, *self.cluster.calls.blocks(span)) for node, span in zip(nodes, spans, strict=True)
        ]
        if kind == "span":
            self.cluster.spans.update((key, span) for key, span in zip(keys, spans, strict=True) if span is not None)
        return self.cluster.submit(leaf_on_worker, keys, arguments)

    def _watch(self, nodes: Sequence[Node], futures: Sequence[Future]) -> None:
        for node, future in zip(nodes, futures, strict=True):
            self._futures[node] = future
            self._node_of[future.key] = node
        self._waiting.update(futures)

    def _hold(self) -> list[Future]:
        return self.cluster.hold(source=self.cluster.calls.source, recipe=self._shared)

    def _back_up(self, key: str, worker: str) -> bool:
        """Begin a second task for the span of ``key``; tell whether there was none yet."""
        node = self._node_of.get(key)
        if node is None or node in self._backups:
            return False
        with dask.annotate(workers=[worker], allow_other_workers=False):
            held = self._hold()  # it has its own copies, so it waits for nothing on the slow worker
            (future,) = self._leaves("backup", [node], held)
        self.cluster.release(*held)
        self._backups[node] = future
        self._node_of[future.key] = node
        self._waiting.add(future)
        return True

    def _completed(self, future: Future) -> None:
        """Note that a future has ended."""
        node = self._node_of.pop(future.key, None)
        if node is None:
            return  # it was released before it ended
        backup = self._backups.get(node)
        if future.status == "finished":
            self._let_go(self._futures[node] if future is backup else backup)
            self._futures[node] = future
            self._backups.pop(node, None)
            self._finished.add(node)
            self._tell(node)
            if node not in self.job.targets:
                self._due.add(self.job.tree.parent(node))
        elif future.status in ("lost", "pending"):  # its worker was lost meanwhile, and dask runs it again
            self._node_of[future.key] = node
            self._waiting.add(future)
        elif future.status == "error":
            error = future.exception()
            if future is backup:
                self.cluster.monitor.faults.append(str(error))
            elif isinstance(error, MissingNode):
                self._missing(error, [node])
            else:
                raise error
        else:
            future.result()  # raises: it was cancelled

    def _tell(self, node: Node) -> None:
        self.cluster.monitor.progressed(0)
        for i in self.job.tree.spans(node):
            if i not in self._told:
                self._told.add(i)
                self.cluster.is_done(self.job.layout.spans[i])

    def _missing(self, error: MissingNode, nodes: Iterable[Node]) -> None:
        """Forget nodes whose states are missing, and plan anew from the states that are stored now."""
        for node in nodes:
            self._finished.discard(node)
            self._let_go(self._futures.pop(node))
            self._let_go(self._backups.pop(node, None))
        self.job = replace(self.job, stored=self._stored_now(error))
        self._due.update(self.job.targets)

    def _let_go(self, future: Future | None) -> None:
        if future is not None:
            self._node_of.pop(future.key, None)
            self.cluster.release(future)


def _above(priority: Any) -> Any:
    """The user's priority of tasks, and one more."""
    return priority + 1 if isinstance(priority, int | float) else priority
