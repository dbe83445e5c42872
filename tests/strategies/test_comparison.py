"""Methods side by side: losses by another road, sizes kept, names checked before anything is computed."""

import numpy as np
import pytest

from spae_dask.errors import InvalidInput
from spae_dask.strategies.comparison import COMPARED, compare, encoder_table, matrix_subject, point_records
from tests.reference_data import pitprops, pitprops_paper_encoder


@pytest.fixture(scope="module")
def points():
    subject = matrix_subject("P", pitprops(), x_is="matrix")
    return list(compare(subject, list(COMPARED), 2, [5, 3]))


def test_losses_and_variances_are_those_of_dense_algebra(points):
    P = pitprops()
    squares = np.linalg.svd(P, compute_uv=False) ** 2
    for point in points:
        codes = P @ point.H
        loss = np.linalg.norm(P - codes @ np.linalg.pinv(codes) @ P) ** 2
        variance = np.linalg.norm(P @ point.H @ np.linalg.pinv(point.H)) ** 2
        assert point.information_loss == pytest.approx(loss / squares[2:].sum(), rel=1e-10)
        assert point.symmetric_ratio == pytest.approx(variance / squares[:2].sum(), rel=1e-10)


def test_points_come_by_r_and_by_method_and_keep_to_r(points):
    assert [(p.n_nonzero, p.method) for p in points] == [(r, method) for r in (3, 5) for method in COMPARED]
    for p in points:
        nonzeros = np.count_nonzero(p.H, axis=0)
        assert nonzeros.max() <= p.n_nonzero
        assert p.mean_column_nonzero == nonzeros.mean()
        assert p.combined_nonzero == np.count_nonzero(p.H.any(axis=1))


def test_all_columns_of_a_batch_encoder_are_on_the_same_r_rows(points):
    for p in points:
        if p.method == "batch":
            assert (p.mean_column_nonzero, p.combined_nonzero) == (p.n_nonzero, p.n_nonzero)


def test_tpower_finds_the_encoder_the_paper_prints(points):
    (found,) = [p for p in points if (p.method, p.n_nonzero) == ("TPower", 5)]
    printed = pitprops_paper_encoder("tpower")
    np.testing.assert_allclose(np.abs(found.H), np.abs(printed), atol=0.0501)


def test_a_factor_as_x_has_other_losses_and_the_same_tpower_encoder(points):
    subject = matrix_subject("F", pitprops(), x_is="factor")
    (found,) = compare(subject, ["TPower"], 2, [5])
    (on_matrix,) = [p for p in points if (p.method, p.n_nonzero) == ("TPower", 5)]
    np.testing.assert_array_equal(found.H, on_matrix.H)
    assert found.information_loss == pytest.approx(1.058, abs=5e-4)  # the printed encoder's, measured by others


@pytest.mark.parametrize(
    ("methods", "k", "rs", "said"),
    [(["lasso"], 2, [3], "methods='lasso'"), (["batch"], 2, [3, 14], "n_nonzero=14"), (["batch"], 0, [3], "from 1 to")],
)
def test_what_is_not_possible_is_refused_before_anything_is_computed(methods, k, rs, said):
    with pytest.raises(InvalidInput, match=said):
        compare(matrix_subject("P", pitprops(), x_is="matrix"), methods, k, rs)


def test_tables_hold_every_point_and_leave_out_unused_rows_of_many(points):
    assert len(point_records(points)) == len(points)
    text = encoder_table([p for p in points if p.n_nonzero == 3], [f"v{i}" for i in range(13)])
    assert all(f"\nv{i} " in text for i in range(13))
    wide = matrix_subject("W", np.diag(np.arange(30.0, 0, -1)), x_is="matrix")
    text = encoder_table(list(compare(wide, ["TPower"], 1, [2])), wide.features)
    assert text.splitlines()[3].startswith("0 ")
    assert "\n29 " not in text
