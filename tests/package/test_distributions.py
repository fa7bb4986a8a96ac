"""The contents of the wheels and the source distributions."""

from __future__ import annotations

import re
import subprocess
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.metadata import Metadata
from packaging.requirements import Requirement
from packaging.utils import parse_sdist_filename, parse_wheel_filename

from constructs_optim import cli
from tests.support.documents import CHECKOUT

from .environments import BASE

LOCAL = CHECKOUT / "constructs_optim_local"


def metadata_of(wheel: Path) -> Metadata:
    """The wheel's metadata, validated against the packaging standards as a package index does."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return Metadata.from_email(archive.read(name), validate=True)


def relative_links(metadata: Metadata) -> list[str]:
    """The links of a description that lead nowhere on a package index."""
    return re.findall(r"\]\((?!https://)[^)]*\)", str(metadata.description))


def test_the_wheel_metadata_is_valid_and_complete(wheel: Path, source_distribution: Path) -> None:
    metadata = metadata_of(wheel)
    assert (metadata.name, str(metadata.requires_python)) == ("constructs-optim", ">=3.11")
    assert metadata.license_expression == "Apache-2.0"
    assert metadata.license_files == ["LICENSE"]
    assert str(metadata.description).count("\n") == (CHECKOUT / "README.md").read_text().count("\n")
    assert relative_links(metadata) == []
    assert metadata.description_content_type == "text/markdown"
    assert parse_wheel_filename(wheel.name)[:2] == parse_sdist_filename(source_distribution.name)
    versions = {f"Programming Language :: Python :: {version}" for version in ("3.11", "3.12", "3.13")}
    assert versions <= set(metadata.classifiers or ())


def test_the_local_cloud_has_its_own_metadata_and_the_library_version(
    wheel: Path, local_wheel: Path, local_source_distribution: Path
) -> None:
    metadata, library = metadata_of(local_wheel), metadata_of(wheel)
    assert (metadata.name, metadata.version) == ("constructs-optim-local", library.version)
    assert (metadata.license_expression, metadata.license_files) == ("Apache-2.0", ["LICENSE"])
    assert (LOCAL / "LICENSE").read_bytes() == (CHECKOUT / "LICENSE").read_bytes()
    assert metadata.description == (LOCAL / "README.md").read_text()
    assert relative_links(metadata) == []
    assert (metadata.project_urls or {}).keys() == (library.project_urls or {}).keys() == {"Documentation", "Changelog"}
    assert parse_wheel_filename(local_wheel.name)[:2] == parse_sdist_filename(local_source_distribution.name)
    names = {each.name for each in metadata.requires_dist or ()}
    assert {"ministack", "moto"} <= names
    assert "constructs-optim" not in names
    (requirement,) = [each for each in library.requires_dist or () if each.name == "constructs-optim-local"]
    assert str(requirement.specifier) == f"=={metadata.version}"


# The release of a package or module, of a requirement, and of a Git tag.
VERSION = re.compile(
    r'^\s*"?version"?\s*[=:]\s*"(\d[\d.]*)"|\bconstructs-optim[\w-]*(?:\[\w+\])?==(\d[\d.]*\d)|\?ref=v(\d[\d.]*\d)',
    re.MULTILINE,
)


@pytest.mark.parametrize(
    "path",
    [
        "constructs_optim_local/pyproject.toml", "docs/terraform.md", "pyproject.toml", "terraform/README.md",
        "terraform/main.tf", "terraform/tests/module.tftest.hcl", "terraform/variables.tf", "typescript/package.json",
    ],
)  # fmt: skip
def test_the_release_is_the_same_wherever_it_stands(path: str) -> None:
    release = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["version"]
    found = {"".join(groups) for groups in VERSION.findall((CHECKOUT / path).read_text())}
    assert found == {release}


def test_without_extras_the_wheel_requires_only_the_base_dependencies(wheel: Path) -> None:
    requirements: list[Requirement] = metadata_of(wheel).requires_dist or []
    base = [each for each in requirements if each.marker is None or each.marker.evaluate({"extra": ""})]
    assert sorted(each.name for each in base) == sorted(BASE)
    for each in base:
        bounds = {bound.operator for bound in each.specifier}
        assert bounds == {">=", "<"}, (
            f"{each}: needs a tested lowest version and an upper bound below the next major version"
        )


def test_every_extra_installs_the_dependencies_of_the_command(wheel: Path) -> None:
    metadata = metadata_of(wheel)
    extras = set(metadata.provides_extra or ())
    assert extras == {"cli", "evaluate", "local", "mcp", "medusa", "plots"}
    for extra in extras:
        installed = {
            each.name for each in metadata.requires_dist or () if each.marker and each.marker.evaluate({"extra": extra})
        }
        assert {"rich", "typer"} <= installed, extra
    assert set(cli._EXTRA) >= {"rich", "typer"}


def files_of(archive: Path) -> set[str]:
    """The files that a wheel installs, without its metadata."""
    with zipfile.ZipFile(archive) as wheel:
        return {name for name in wheel.namelist() if ".dist-info/" not in name}


def checked_in(package: str) -> set[str]:
    """The files of a package that git tracks or does not ignore."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", package],
        cwd=CHECKOUT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return set(listed.stdout.split())


def test_each_wheel_contains_exactly_the_files_of_its_package(wheel: Path, local_wheel: Path) -> None:
    assert files_of(wheel) == checked_in("constructs_optim")
    assert "constructs_optim/py.typed" in files_of(wheel)
    of_the_distribution = {f"{LOCAL.name}/{name}" for name in ("LICENSE", "README.md", "pyproject.toml")}
    assert files_of(local_wheel) == checked_in(LOCAL.name) - of_the_distribution
    assert f"{LOCAL.name}/py.typed" in files_of(local_wheel)


def test_the_source_distribution_contains_code_docs_examples_and_tests(source_distribution: Path) -> None:
    root = source_distribution.name.removesuffix(".tar.gz")
    with tarfile.open(source_distribution) as archive:
        held = {name.removeprefix(f"{root}/") for name in archive.getnames()}
    needed = ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "docs/rules.md")
    assert held >= {*needed, "constructs_optim/__init__.py", "tests/conftest.py", "examples/production.py"}
    assert not [name for name in held if name.startswith((".venv", "node_modules", "cdk.out", "site", "dist"))]
