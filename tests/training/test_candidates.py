from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from constructs_optim.training.decoding.candidates import CandidateTree

ACCURACIES = st.lists(
    st.lists(st.floats(0.01, 1), min_size=2, max_size=5).map(lambda row: sorted(row, reverse=True)),
    min_size=1,
    max_size=5,
)


def test_a_chain_has_the_top_candidate_of_each_head() -> None:
    tree = CandidateTree.chain(3)
    assert tree.paths == ((0,), (0, 0), (0, 0, 0))
    assert tree.is_chain
    assert tree.tokens([[5], [6], [7]]) == [5, 6, 7]
    assert tree.attention("cpu").int().tolist() == torch.ones(4, 4).tril().int().tolist()


def test_the_tree_includes_the_likeliest_candidates() -> None:
    tree = CandidateTree.likely([[0.6, 0.3], [0.5, 0.1]], heads=2, nodes=4)
    assert tree.paths == ((0,), (1,), (0, 0), (1, 0)) or tree.paths == ((0,), (0, 0), (1,), (1, 0))
    assert set(tree.paths) == {(0,), (0, 0), (1,), (1, 0)}


@settings(deadline=None)
@given(ACCURACIES, st.integers(1, 30))
def test_no_omitted_candidate_is_likelier_than_an_included_one(accuracies: list[list[float]], nodes: int) -> None:
    def chance(path: tuple[int, ...]) -> float:
        product = 1.0
        for head, rank in enumerate(path):
            product *= accuracies[head][rank]
        return product

    tree = CandidateTree.likely(accuracies, heads=len(accuracies), nodes=nodes)
    assert len(set(tree.paths)) == len(tree.paths) <= nodes
    taken = set(tree.paths)
    beside = {
        (*path, rank)
        for path in ((), *tree.paths)
        if len(path) < len(accuracies)
        for rank in range(len(accuracies[len(path)]))
    } - taken
    if beside:
        assert len(taken) == nodes
        assert max(map(chance, beside)) <= min(map(chance, taken)) + 1e-9


@settings(deadline=None)
@given(ACCURACIES, st.integers(1, 30))
def test_a_tree_node_attends_only_to_itself_and_its_ancestors(accuracies: list[list[float]], nodes: int) -> None:
    tree = CandidateTree.likely(accuracies, heads=len(accuracies), nodes=nodes)
    attention = tree.attention("cpu")
    paths = [(), *tree.paths]
    for place, path in enumerate(paths):
        seen = {paths[other] for other in range(len(paths)) if attention[place, other]}
        assert seen == {path[:length] for length in range(len(path) + 1)}
        assert all(paths[child][:-1] == path for child in tree.children[place])
    assert sum(map(len, tree.children)) == len(tree.paths)


def test_a_tree_path_without_its_prefix_is_refused() -> None:
    with pytest.raises(ValueError, match="a path's beginning is not a path of the tree"):
        CandidateTree(((0, 0),))
