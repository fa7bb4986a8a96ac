from __future__ import annotations

from typing import Any

import pytest
import torch

from constructs_optim.training.decoding.candidates import CandidateTree
from constructs_optim.training.decoding.greedy import GreedyDecoder
from constructs_optim.training.model.heads import MedusaHeads

from .models import VOCABULARY, small_model

END = 1
PROMPTS = [[7, 8, 9, 10], [300], list(range(20, 120))]


def random_heads(model: Any, heads: int = 4) -> MedusaHeads:
    """Untrained heads, each changed a little: some of their guesses are right."""
    made = MedusaHeads.beside(model.get_output_embeddings().weight, heads=heads, layers=1)
    torch.manual_seed(3)
    for parameter in made.parameters():
        parameter.data += 0.02 * torch.randn_like(parameter)
    return made.eval()


def looping_model(family: str) -> Any:
    """A model whose outputs soon repeat, so that guesses come true."""
    model = small_model(family, seed=5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter *= 1.5
    return model


@pytest.mark.parametrize("family", ["llama", "mistral"])
def test_without_heads_it_decodes_as_transformers_does(family: str) -> None:
    model = looping_model(family)
    decoder = GreedyDecoder(model, end_tokens=[END])
    for prompt in PROMPTS:
        expected = model.generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            max_new_tokens=40,
            do_sample=False,
            pad_token_id=END,
        )[0, len(prompt) :]
        decoded = decoder.decode(prompt, maximum_new_tokens=40)
        assert decoded.tokens == expected.tolist()
        assert decoded.passes == len(decoded.tokens)


@pytest.mark.parametrize("family", ["llama", "mistral"])
@pytest.mark.parametrize(
    "tree",
    [
        CandidateTree.chain(4),
        CandidateTree.chain(1),
        CandidateTree.likely(None, heads=4, nodes=40),
        CandidateTree(((0,), (1,), (2,), (1, 3), (1, 3, 0), (2, 2))),
    ],
    ids=["chain", "one head", "likely tree", "lopsided tree"],
)
def test_every_candidate_tree_gives_the_plain_greedy_output(family: str, tree: CandidateTree) -> None:
    model = looping_model(family)
    plain = GreedyDecoder(model, end_tokens=[END])
    fast = GreedyDecoder(model, end_tokens=[END], heads=random_heads(model), tree=tree)
    for prompt in PROMPTS:
        one = plain.decode(prompt, maximum_new_tokens=60)
        other = fast.decode(prompt, maximum_new_tokens=60)
        assert other.tokens == one.tokens
        assert other.passes <= one.passes + other.ties


def test_correct_candidates_are_accepted_and_counted() -> None:
    model = looping_model("llama")
    # The model that repeats one token is foreseen by heads that repeat it too.
    with torch.no_grad():
        model.lm_head.weight[:] = 0
        model.lm_head.weight[200] = 1
        model.model.norm.weight[:] = 1
    heads = MedusaHeads.beside(model.lm_head.weight, heads=4, layers=1)
    found = GreedyDecoder(model, end_tokens=[END], heads=heads, tie_margin=0).decode([5, 6], maximum_new_tokens=21)
    expected = GreedyDecoder(model, end_tokens=[END]).decode([5, 6], maximum_new_tokens=21)
    assert found.tokens == expected.tokens
    if expected.tokens == [200] * 21:
        assert found.passes == 1 + 4
        assert found.tried == found.accepted == [4, 4, 4, 4]


@pytest.mark.parametrize("length", range(1, 8))
def test_no_more_than_the_maximum_of_new_tokens_are_generated(length: int) -> None:
    model = looping_model("llama")
    heads = random_heads(model)
    plain = GreedyDecoder(model, end_tokens=[]).decode([9, 10], maximum_new_tokens=length)
    found = GreedyDecoder(model, end_tokens=[], heads=heads).decode([9, 10], maximum_new_tokens=length)
    assert len(found.tokens) == length
    assert found.tokens == plain.tokens


def test_an_end_token_among_the_candidates_ends_the_output() -> None:
    model = looping_model("llama")
    plain = GreedyDecoder(model, end_tokens=[]).decode([9, 10], maximum_new_tokens=40)
    for end in set(plain.tokens):
        cut = plain.tokens[: plain.tokens.index(end) + 1]
        for tree in (CandidateTree.chain(4), CandidateTree.likely(None, heads=4, nodes=20)):
            found = GreedyDecoder(model, end_tokens=[end], heads=random_heads(model), tree=tree)
            assert found.decode([9, 10], maximum_new_tokens=40).tokens == cut


def test_a_near_tie_is_verified_in_a_separate_pass() -> None:
    model = looping_model("llama")
    heads = random_heads(model)
    plain = GreedyDecoder(model, end_tokens=[END]).decode([9, 10], maximum_new_tokens=30)
    careful = GreedyDecoder(model, end_tokens=[END], heads=heads, tie_margin=float("inf"))
    found = careful.decode([9, 10], maximum_new_tokens=30)
    assert found.tokens == plain.tokens
    assert found.ties == len(found.tokens) - 1
    assert found.passes == 1 + 2 * found.ties
    for tree in (None, CandidateTree.likely(None, heads=4, nodes=20)):
        for margin in (0.01, 0.1, 1.0):
            some = GreedyDecoder(model, end_tokens=[END], heads=heads, tree=tree, tie_margin=margin)
            assert some.decode([9, 10], maximum_new_tokens=30).tokens == plain.tokens


def test_untrained_heads_give_the_logits_of_the_model() -> None:
    model = small_model("llama")
    heads = MedusaHeads.beside(model.lm_head.weight, heads=2, layers=3)
    hidden = torch.randn(3, 96)
    assert torch.equal(heads.logits(hidden)[1], model.lm_head(hidden))
    assert heads.logits(hidden).shape == (2, 3, VOCABULARY)
