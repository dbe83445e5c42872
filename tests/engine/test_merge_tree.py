"""The nodes of the merge tree: those of the merge levels, and who holds whom."""

import pytest

from spae_dask.passes.merge_tree import MergeTree
from tests.engine.levels import merge_levels


@pytest.mark.parametrize(("n_spans", "fan_in"), [(1, 1), (2, 2), (9, 8), (64, 8), (65, 8), (100, 3)])
def test_the_tree_is_that_of_the_merge_levels(n_spans: int, fan_in: int) -> None:
    tree, levels = MergeTree(n_spans, fan_in), merge_levels(n_spans, fan_in)
    assert tree.widths == (n_spans, *map(len, levels))
    for level, groups in enumerate(levels, start=1):
        for number, group in enumerate(groups):
            assert tree.children((level, number)) == tuple((level - 1, i) for i in group)
    assert list(tree.spans(tree.root)) == list(range(n_spans))
    assert tree.tops(set(range(n_spans))) == [tree.root]
    assert [span for node in tree.tops(set(range(n_spans)) - {n_spans // 2}) for span in tree.spans(node)] == [
        span for span in range(n_spans) if span != n_spans // 2
    ]


@pytest.mark.parametrize(("n_spans", "fan_in"), [(1, 1), (9, 8), (65, 8), (100, 3)])
def test_a_node_is_held_by_those_that_have_all_its_spans(n_spans: int, fan_in: int) -> None:
    tree = MergeTree(n_spans, fan_in)
    nodes = [(level, number) for level, width in enumerate(tree.widths) for number in range(width)]
    for node in nodes:
        wanted = [each for each in nodes if each[0] >= node[0] and set(tree.spans(node)) <= set(tree.spans(each))]
        assert list(tree.holders(node)) == wanted
        assert (node in tree.outdated({node, *wanted})) == (node != tree.root)
