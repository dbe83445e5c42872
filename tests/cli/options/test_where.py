"""What may stand after --cluster."""

import pytest
import typer

from spae_dask.cli.options.target import check_cluster
from spae_dask.clusters.values import is_address

ADDRESSES = ["tcp://10.0.0.5:8786", "tls://node1.example.org:1", "tcp://[::1]:65535"]
NO_ADDRESSES = [
    "tcp://host",
    "tcp://host:0",
    "tcp://host:65536",
    "tcp://:8786",
    "tcp://a/b:8786",
    "tcp://a b:8786",
    "tcp://host:8786/",
    "tcp://bob:secret@host:8786",
    "http://host:8786",
    "tcp://host:\uff18786",
    "tcp://host:8786\n",
]


@pytest.mark.parametrize("given", ADDRESSES)
def test_addresses_of_schedulers_are_taken(given):
    assert is_address(given)
    assert check_cluster(given) == given


@pytest.mark.parametrize("given", [*NO_ADDRESSES, "local:0", "local:", "everywhere", "", "none "])
def test_what_is_no_place_is_refused_in_words(given):
    assert not is_address(given)
    with pytest.raises(typer.BadParameter, match=r"is not a cluster\. Give none, local"):
        check_cluster(given)


@pytest.mark.parametrize("given", ["none", "local", "local:8", "deploy/slurm/slurm.toml", None])
def test_names_and_cluster_files_are_taken(given):
    assert check_cluster(given) == given


def test_an_address_with_a_folder_is_a_usage_error_on_the_command_line(spae):
    ended = spae("check", "x.zarr", "--cluster", "tcp://a/b:8786")
    assert ended.code == 2
    assert "'--cluster'" in ended.err
