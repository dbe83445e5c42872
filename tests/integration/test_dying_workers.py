"""Worker processes of this machine that die as they start."""

from pathlib import Path

import dask
import pytest

from spae_dask.clusters.local import local_cluster
from spae_dask.errors import ClusterUnavailable
from tests.clusters.conftest import listening

DIES = """
import os, sys
from pathlib import Path

seen = Path(os.environ["TEST_SEEN"])
n = len(list(seen.iterdir()))
(seen / f"{os.getpid()}").touch()
if n < int(os.environ["TEST_DEATHS"]):
    print("the preload ends this worker", file=sys.stderr, flush=True)
    os._exit(9)
"""


@pytest.mark.timeout(150)
@pytest.mark.parametrize("deaths", [1, 2])
def test_a_worker_that_dies_at_its_start_is_started_once_more_and_then_told_of(
    deaths: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "seen").mkdir()
    (tmp_path / "dies.py").write_text(DIES)
    for name, value in {"TEST_SEEN": str(tmp_path / "seen"), "TEST_DEATHS": str(deaths)}.items():
        monkeypatch.setenv(name, value)
    before = listening()
    with dask.config.set({"distributed.worker.preload": [str(tmp_path / "dies.py")]}):
        if deaths == 1:
            with local_cluster(1, 1 << 30) as client:
                assert client.submit(sum, [1, 2]).result(timeout=60) == 3
        else:
            with pytest.raises(ClusterUnavailable, match=r"did not start, 2 times.*exited with status 9"):
                local_cluster(1, 1 << 30).__enter__()
    assert len(list((tmp_path / "seen").iterdir())) == 2
    assert "the preload ends this worker" in capfd.readouterr().err
    assert listening() == before
