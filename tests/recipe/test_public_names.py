"""Error messages for names that the package does not have."""

from __future__ import annotations

import pytest

import constructs_optim


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("Technique", "the techniques are Compilation, FineTune, KvCache, Medusa, "),
        ("OptimisedEndpoint", "there is OptimizedEndpoint"),
        ("quantization", "there is Quantization"),
        ("Xylophone", "dir(constructs_optim) lists all names"),
    ],
)
def test_a_missing_public_name_raises_an_error_with_a_hint(name: str, hint: str) -> None:
    with pytest.raises(AttributeError) as raised:
        getattr(constructs_optim, name)
    assert f"module 'constructs_optim' has no attribute {name!r}; {hint}" in str(raised.value)
