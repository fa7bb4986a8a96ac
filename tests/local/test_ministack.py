"""The local cloud's patches of ministack: each has a reason and applies to one tested release only."""

from __future__ import annotations

import ast
import importlib.util
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from constructs_optim_local import cloud as cloud_module
from constructs_optim_local.cloud import LocalCloud
from constructs_optim_local.ministack import patches
from constructs_optim_local.ministack.patches import (
    PATCHES,
    TABLES,
    TESTED_VERSION,
    UntestedMinistack,
    check_ministack,
    refuse_untested,
)

ROOM = Path(patches.__file__).parent


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy of the installed ministack's Python files."""
    spec = importlib.util.find_spec("ministack")
    assert spec is not None
    source = Path(str(spec.origin)).parent
    shutil.copytree(source, tmp_path / "ministack", ignore=shutil.ignore_patterns("__pycache__", "*.js", "*.html"))
    return tmp_path / "ministack"


def texts() -> Iterator[str]:
    """The string constants in the package's modules other than the tables of patches themselves."""
    for path in ROOM.glob("*.py"):
        if path.name != "patches.py":
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield node.value


def test_the_installed_ministack_release_is_the_patched_one() -> None:
    check_ministack()


def test_another_ministack_release_is_refused_with_the_pip_command(copied: Path) -> None:
    with pytest.raises(UntestedMinistack) as refused:
        refuse_untested("1.5.32", copied)
    assert str(refused.value) == (
        f"ministack 1.5.32 is installed, and the local cloud replaces private names of {TESTED_VERSION}: "
        f'pip install --force-reinstall "ministack=={TESTED_VERSION}"'
    )


def test_a_patched_function_whose_source_changed_is_reported(copied: Path) -> None:
    refuse_untested(TESTED_VERSION, copied)
    file = copied / "core" / "iam_evaluator.py"
    text = file.read_text()
    file.write_text(text.replace("def enforce(", "def enforced("))
    with pytest.raises(UntestedMinistack, match=r"core\.iam_evaluator\.enforce, whose source differs"):
        refuse_untested(TESTED_VERSION, copied)
    file.write_text(text.replace("def enforce(", "def enforce(  # changed\n"))
    with pytest.raises(UntestedMinistack, match=r"core\.iam_evaluator\.enforce"):
        refuse_untested(TESTED_VERSION, copied)
    file.write_text(f"{text}\n\ndef further() -> None:\n    pass\n")
    refuse_untested(TESTED_VERSION, copied)


def test_a_local_cloud_does_not_start_on_an_untested_ministack(monkeypatch: pytest.MonkeyPatch, copied: Path) -> None:
    monkeypatch.setattr(cloud_module, "check_ministack", lambda: refuse_untested("2.0.0", copied))
    cloud = LocalCloud()
    with pytest.raises(UntestedMinistack, match=r"ministack 2\.0\.0 is installed"):
        cloud.start()
    assert cloud.pid is None


def test_every_ministack_patch_has_a_reason_and_is_applied() -> None:
    assert all(patch.reason.endswith(".") and len(patch.digest) == 12 for patch in PATCHES.values())
    assert {*PATCHES, *TABLES} - set(texts()) == set()


def test_a_name_missing_from_the_patch_table_cannot_be_replaced() -> None:
    with pytest.raises(LookupError):
        patches.replace("core.iam_evaluator.find_iam_access_key_account", None)
    with pytest.raises(LookupError):
        patches.table("services.s3._buckets")


def test_no_module_patches_ministack_outside_the_patch_table() -> None:
    """Looks for assignments to attributes of ministack modules, which are imported inside functions."""
    found = []
    for path in ROOM.glob("*.py"):
        tree = ast.parse(path.read_text())
        modules = {
            alias.asname or alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom | ast.Import)
            for alias in node.names
            if (node.module if isinstance(node, ast.ImportFrom) else alias.name or "").startswith("ministack")
        }
        for node in ast.walk(tree):
            for target in node.targets if isinstance(node, ast.Assign) else ():
                parts = target.elts if isinstance(target, ast.Tuple) else [target]
                found += [
                    ast.unparse(part)
                    for part in parts
                    if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id in modules
                ]
    assert found == []
