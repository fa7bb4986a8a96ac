"""Downloads a container's model data to its ``/opt/ml``.

Sources: API reference, ContainerDefinition (ModelDataUrl is an archive that is extracted), S3ModelDataSource and
AdditionalModelDataSource (``/opt/ml/additional-model-data-sources/<channel>``).
"""

from __future__ import annotations

import json
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

from constructs_optim_local.sagemaker.objects import Objects
from constructs_optim_local.sagemaker.records import Record

# AWS's own buckets, whose models no local cloud has. Source: SageMaker Python SDK, jumpstart/constants.py.
_OF_AWS = "s3://jumpstart-"
_MADE_HERE = "a local cloud"


class NoModelData(Exception):
    """Model data that cannot be downloaded. The text is SageMaker's message."""


def fill(root: Path, container: Record, objects: Objects) -> bool:
    """Put a container's model data below ``root``, which stands for ``/opt/ml``.

    A tiny model stands in for a model that only AWS has, and for the output of a simulated job.

    Returns:
        Whether the model is a stand-in.

    Raises:
        NoModelData: if a prefix or an object does not exist.
    """
    model = root / "model"
    model.mkdir(parents=True, exist_ok=True)
    for folder, source in _sources(root, container):
        folder.mkdir(parents=True, exist_ok=True)
        _download(folder, source, objects)
    if not any(model.rglob("*.safetensors")) or _is_pretended(model / "config.json"):
        # This import needs numpy and tokenizers, which nothing else in the local cloud does.
        from constructs_optim_local.light_server import tiny_model

        tiny_model.write(model)
        return True
    return False


def _sources(root: Path, container: Record) -> Iterator[tuple[Path, Record]]:
    if url := container.get("ModelDataUrl"):
        yield root / "model", {"S3Uri": url, "S3DataType": "S3Object", "CompressionType": "Gzip"}
    if source := container.get("ModelDataSource", {}).get("S3DataSource"):
        yield root / "model", source
    for more in container.get("AdditionalModelDataSources", []):
        yield root / "additional-model-data-sources" / more["ChannelName"], more["S3DataSource"]


def _download(folder: Path, source: Record, objects: Objects) -> None:
    uri = source["S3Uri"]
    found = [each for each in objects.uris(uri) if not each.endswith("/")]
    if source["S3DataType"] == "S3Object":
        found = [each for each in found if each == uri]
    if not found and not uri.startswith(_OF_AWS):
        # Source of the message: https://github.com/aws-samples/cvat-on-aws-china/issues/3.
        raise NoModelData(
            f'Failed to download model data for container "container_1" from URL: "{uri}". Please ensure that there '
            "is an object located at the URL and that the role passed to CreateModel has permissions to download the "
            "object."
        )
    for each in found:
        if source["CompressionType"] == "Gzip":
            with tempfile.NamedTemporaryFile(suffix=".tar.gz") as archive:
                objects.download(each, Path(archive.name))
                with tarfile.open(archive.name) as packed:
                    packed.extractall(folder, filter="data")
            continue
        path = folder / (each.removeprefix(f"{uri.rstrip('/')}/") if each != uri else each.rpartition("/")[2])
        if not path.resolve().is_relative_to(folder.resolve()):
            raise NoModelData(f"The key of {each} leads out of the model's folder.")
        path.parent.mkdir(parents=True, exist_ok=True)
        objects.download(each, path)


def _is_pretended(config: Path) -> bool:
    try:
        return json.loads(config.read_text(encoding="utf-8")).get("made_by") == _MADE_HERE
    except (OSError, ValueError):
        return False
