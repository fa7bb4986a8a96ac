"""Declarations are formatted as ruff formats them."""

from __future__ import annotations

import subprocess
from pathlib import Path

from constructs_optim.cli.adoption.declaration import Call, Code, Declaration, camel_case

CONFIGURATION = Path(__file__).parent.parent.parent / "pyproject.toml"


def test_a_declaration_is_formatted(tmp_path: Path) -> None:
    declared = Declaration("Chat", "111122223333", "us-west-2")
    nested = Call("Long", "x" * 60, names=["y" * 30, "z" * 30], settings={"a": 1.0, "b": None, "c": 'quoted "text"'})
    commented = Call("OptimizedEndpoint", Code("stack"), "Endpoint", nested=nested, short=True)
    commented.comments["short"] = "Why."
    declared.add("endpoint", commented)
    inner = Call("Server.vllm", container_version=None)
    inner.comments[""] = "No such tag."
    declared.add(None, Call("endpoint.add", server=inner))
    declared.imports("aws_cdk", "Tags")
    source = declared.render("A chat.")
    assert "Tags" not in source, "it is not used"
    assert "    # Why.\n    short=True,\n" in source
    assert "    # No such tag.\n    server=Server.vllm(container_version=None),\n" in source
    (tmp_path / "app.py").write_text(source)
    formatted = subprocess.run(
        ["ruff", "format", "--diff", "--config", str(CONFIGURATION), str(tmp_path / "app.py")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert formatted.returncode == 0, formatted.stdout


def test_ids_of_names() -> None:
    assert [camel_case(name) for name in ("chat-prod", "8b", "a_b.c")] == ["ChatProd", "Adopted8b", "ABC"]
