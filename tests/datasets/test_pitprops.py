import numpy as np

from spae_dask.datasets import load_pitprops


def test_it_is_a_correlation_matrix_of_full_rank():
    correlation, names = load_pitprops()

    assert correlation.shape == (13, 13)
    assert len(set(names)) == 13
    np.testing.assert_array_equal(correlation, correlation.T)
    np.testing.assert_array_equal(np.diagonal(correlation), 1.0)
    assert np.linalg.eigvalsh(correlation)[0] > 0.03


def test_eigenvalues_are_the_published_ones():
    eigenvalues = np.linalg.eigvalsh(load_pitprops()[0])[::-1]

    np.testing.assert_allclose(eigenvalues[:6], [4.219, 2.378, 1.878, 1.109, 0.910, 0.815], atol=5e-4)


def test_the_row_that_circulates_in_wrong_copies_is_right():
    correlation, names = load_pitprops()
    diaknot = dict(zip(names, correlation[names.index("diaknot")], strict=True))

    wanted = {"bowmax": -0.202, "bowdist": -0.076, "whorls": -0.291, "clear": 0.007, "knots": 0.184}
    assert {name: diaknot[name] for name in wanted} == wanted


def test_a_caller_cannot_spoil_it_for_the_next():
    load_pitprops()[0][:] = 0.0

    assert load_pitprops()[0][0, 0] == 1.0
