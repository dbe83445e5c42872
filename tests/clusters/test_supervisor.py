"""Which jobs are taken for gone, and when others follow them: on a cluster of which only the bookkeeping is real."""

import asyncio
from types import SimpleNamespace

import pytest

from spae_dask.clusters import supervisor
from spae_dask.clusters.supervisor import Replacing
from spae_dask.errors import ClusterUnavailable


class Cluster:
    """Of jobs that a test starts, ends and gives workers; names and numbers are never given twice."""

    def __init__(self, n_jobs, suffixes=("",)):
        self.group = list(suffixes)
        self.worker_spec, self.workers, self.queue = {}, {}, set()
        self.scheduler = SimpleNamespace(workers={})
        self.n_made = self.n_submitted = 0
        self.refuses = False
        for _ in range(n_jobs):
            self.worker_spec.update(self.new_worker_spec())
        asyncio.run(self._correct_state())

    def new_worker_spec(self):
        self.n_made += 1
        return {f"job-{self.n_made}": {"group": self.group}}

    async def _correct_state(self):
        for name in self.workers.keys() - self.worker_spec.keys():
            self.queue.discard(self.workers.pop(name).job_id)
        for name in sorted(self.worker_spec.keys() - self.workers.keys()):
            self.n_submitted += 1
            number = None if self.refuses else str(self.n_submitted)
            self.workers[name] = SimpleNamespace(job_id=number)
            self.queue |= {number} - {None}
        if self.refuses:
            raise RuntimeError("sbatch: error: busy")

    def sync(self, function, *arguments):
        return asyncio.run(function(*arguments))

    def registers(self, worker):
        self.scheduler.workers[worker] = SimpleNamespace(name=worker)

    def dies(self, *workers):
        for worker in workers:
            del self.scheduler.workers[worker]

    @property
    def numbers(self):
        return sorted(job.job_id for job in self.workers.values())


@pytest.fixture
def clock(monkeypatch):
    now = SimpleNamespace(seconds=100.0)
    monkeypatch.setattr(supervisor.time, "monotonic", lambda: now.seconds)
    return now


def looked(watch, clock, n=1, seconds=1.0):
    for _ in range(n):
        clock.seconds += seconds
        watch.look()


@pytest.mark.parametrize("suffixes", [("",), ("-0", "-1")])
def test_a_job_whose_workers_are_all_gone_is_replaced_and_its_name_is_not_used_again(suffixes, clock):
    cluster = Cluster(2, suffixes)
    watch = Replacing(cluster, lambda: cluster.queue)
    workers = [f"job-{number}{suffix}" for number in (1, 2) for suffix in suffixes]
    for worker in workers:
        cluster.registers(worker)
    looked(watch, clock)
    cluster.dies(*workers[: len(suffixes)])
    looked(watch, clock, 5)
    assert (cluster.numbers, sorted(cluster.worker_spec)) == (["2", "3"], ["job-2", "job-3"])
    assert cluster.queue == {"2", "3"}


def test_a_job_with_one_of_its_workers_left_stays(clock):
    cluster = Cluster(1, ("-0", "-1"))
    watch = Replacing(cluster, lambda: cluster.queue)
    cluster.registers("job-1-0")
    cluster.registers("job-1-1")
    looked(watch, clock)
    cluster.dies("job-1-0")
    looked(watch, clock, 100)
    assert cluster.numbers == ["1"]


def test_a_worker_that_is_back_at_once_was_not_lost(clock):
    cluster = Cluster(1)
    watch = Replacing(cluster, None)
    for _ in range(5):
        cluster.registers("job-1")
        looked(watch, clock)
        cluster.dies("job-1")
        looked(watch, clock)
    assert cluster.numbers == ["1"]


def test_a_job_that_waits_is_let_alone_and_one_that_vanished_from_the_queue_is_replaced(clock):
    cluster = Cluster(3)
    watch = Replacing(cluster, lambda: cluster.queue)
    cluster.registers("job-1")
    looked(watch, clock, 200)
    assert cluster.numbers == ["1", "2", "3"]
    cluster.queue.discard("3")
    looked(watch, clock, 40)
    assert cluster.numbers == ["1", "2", "4"]


def test_a_queue_that_does_not_answer_is_asked_again_and_nothing_is_concluded(clock):
    cluster = Cluster(2)
    asked = []

    def busy():
        asked.append(clock.seconds)
        raise ClusterUnavailable("squeue: error: slurm_load_jobs error: Unable to contact slurm controller.")

    watch = Replacing(cluster, busy)
    looked(watch, clock, 300)
    assert (cluster.numbers, watch.all_failed) == (["1", "2"], False)
    assert 5 < len(asked) < 20  # ever less often


def test_when_all_jobs_ended_and_none_had_a_worker_there_is_no_hope_and_no_other_job(clock):
    cluster = Cluster(2)
    watch = Replacing(cluster, lambda: cluster.queue)
    looked(watch, clock)
    cluster.queue.clear()
    looked(watch, clock, 60)
    assert (watch.all_failed, cluster.n_submitted) == (True, 2)


def test_jobs_that_die_at_birth_again_and_again_are_followed_ever_later(clock):
    cluster = Cluster(2)
    watch = Replacing(cluster, lambda: cluster.queue)
    cluster.registers("job-1")
    for _ in range(3600):
        looked(watch, clock)
        cluster.queue &= {"1"}
    assert 50 < cluster.n_submitted < 80  # once a minute
    assert not watch.all_failed


def test_what_the_queue_refuses_is_submitted_again_later(clock):
    cluster = Cluster(2)
    watch = Replacing(cluster, lambda: cluster.queue)
    cluster.registers("job-1")
    cluster.registers("job-2")
    looked(watch, clock)
    cluster.refuses = True
    cluster.dies("job-2")
    looked(watch, clock, 60)
    assert 5 < cluster.n_submitted < 12  # with growing pauses
    cluster.refuses = False
    looked(watch, clock, 60)
    assert cluster.numbers == ["1", str(cluster.n_submitted)]
