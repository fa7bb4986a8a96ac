"""JumpStart's documents, as ``DescribeHubContent`` returns them.

Keys are matched without case and underscores ("HostingEcrUri", "image_uri"). An inference configuration names
components, which override the base document in order. The first configuration in the overall ranking is the default.

Source of the fields and of what they decide at a deployment: aws/sagemaker-python-sdk, commit a248126 of 2026-08-21,
sagemaker-core, ``jumpstart/models.py`` (``HostingComponentsModel``), ``jumpstart/hub/parsers.py``
(``get_model_spec_arg_keys``) and ``jumpstart/factory/utils.py`` (``_add_additional_model_data_sources_to_kwargs``).
``tests/conformance/test_hub_documents.py`` lists each field as used or not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from ..documents import is_list, is_object, json_value, list_in, nested, object_in
from ..errors import DeploymentError, code_of, message_of

if TYPE_CHECKING:
    from mypy_boto3_sagemaker.client import SageMakerClient

LONGEST_STARTUP = 3600
"""The API's limit in seconds for downloading a model, and for loading it."""
LARGEST_VOLUME = 512
"""The API's limit in GB for the volume of an instance that hosts a model (ProductionVariant.VolumeSizeInGB)."""
_ARTIFACTS = ("hostingprepackedartifacturi", "hostingartifacturi")


# The names of machine images, such as al2-ami-sagemaker-inference-gpu-3-1 (ProductionVariant.InferenceAmiVersion).
_AMI = re.compile(r"[A-Za-z][A-Za-z0-9.-]{0,127}")
# The text for a value that a document leaves to SageMaker: an attribute of a custom resource has no other form for it.
_DEFAULT = "default"


@dataclass(frozen=True)
class HubHosting:
    """What a document says about the instances that host the model; None for SageMaker's default.

    Attributes:
        ami_version: their machine image.
        volume_gb: the size of their volumes, on types without NVMe disks.
    """

    ami_version: str | None = None
    volume_gb: int | None = None

    @property
    def attributes(self) -> dict[str, str]:
        """The values as attributes of a custom resource."""
        return {
            "InferenceAmiVersion": self.ami_version or _DEFAULT,
            "VolumeSizeInGB": _DEFAULT if self.volume_gb is None else str(self.volume_gb),
        }

    @staticmethod
    def of_variant(variant: Mapping[str, Any]) -> dict[str, Any]:
        """Return a variant with the values of its models' documents, which are attributes joined by ``|``.

        Raises:
            DeploymentError: if documents name different machine images.
        """
        decided = dict(variant)
        for member in HubHosting().attributes:
            if not isinstance(joined := decided.get(member), str):
                continue
            stated = sorted({value for value in joined.split("|") if value != _DEFAULT})
            if not stated:
                del decided[member]
            elif all(map(str.isdigit, stated)):
                decided[member] = str(max(map(int, stated)))
            elif len(stated) == 1:
                (decided[member],) = stated
            else:
                raise DeploymentError(
                    "the instance pools' configurations of JumpStart name different machine images, "
                    f"{' and '.join(stated)}, and a variant has one: choose it with "
                    "variant=VariantOptions(inference_ami_version=...)"
                )
        return decided


@dataclass(frozen=True)
class AdditionalFiles:
    """Files that a configuration's container reads next to the model; ``eula``: the license to accept, if any."""

    channel: str
    uri: str
    eula: str | None


class HubDocument:
    """A model's document, with the overrides of one of its inference configurations."""

    def __init__(self, model: str, text: str, configuration: str | None = None) -> None:
        self._model = model
        try:
            document = _fold(json_value(text))
        except ValueError:
            document = None
        if not is_object(document):
            raise DeploymentError(
                f"the hub's document of {model} cannot be read: it is not a JSON object, or nested too deeply. Next: "
                "choose another version of the model, or import it again if it is in a private hub"
            )
        configurations = object_in(document.get("inferenceconfigs"))
        if configuration is not None and _folded(configuration) not in configurations:
            names = ", ".join(sorted(configurations)) or "none"
            raise DeploymentError(
                f"{model} has no inference configuration {configuration!r}. Its document has: {names}"
            )
        self._components = object_in(document.get("inferenceconfigcomponents"))
        rankings = list_in(nested(document, "inferenceconfigrankings", "overall", "rankings"))
        chosen = configuration or (str(rankings[0]) if rankings else "")
        overlay: dict[str, object] = {}
        for name in list_in(nested(configurations, _folded(chosen), "componentnames")):
            overlay |= object_in(self._components.get(_folded(str(name))))
        if any(key in overlay for key in _ARTIFACTS):
            # A configuration's artifact overrides both artifact keys of the base document.
            overlay = {**dict.fromkeys(_ARTIFACTS), **overlay}
        self._fields = document | overlay

    @property
    def eula_uri(self) -> str | None:
        """The URI of the license to accept; None if there is none."""
        if uri := self._fields.get("hostingeulauri"):
            return str(uri)
        link = self._fields.get("hostingeulaexternallink")
        return str(link or "see the model card") if self._fields.get("gatedbucket") else None

    @property
    def model_uri(self) -> str:
        """The S3 prefix of the model's uncompressed files."""
        uri = next((self._fields[key] for key in _ARTIFACTS if self._fields.get(key)), None)
        if not isinstance(uri, str) or not uri.startswith("s3://"):
            raise DeploymentError(f"the hub's document of {self._model} names no model artifact in S3")
        kinds = [self._fields.get(f"hostingartifact{kind}") for kind in ("s3datatype", "compressiontype")]
        if uri.endswith((".tar.gz", ".tgz")) or "S3Object" in kinds or "Gzip" in kinds:
            raise DeploymentError(
                f"{self._model} is stored as an archive ({uri}), but uncompressed files are needed: choose a newer "
                "version, or copy the unpacked files to S3 and use Model.s3(...)"
            )
        return uri

    @property
    def startup_timeouts(self) -> tuple[int, int]:
        """The limits in seconds for downloading and loading the model, by default an hour."""
        stated = (self._fields.get(name) for name in ("modeldatadownloadtimeout", "containerstartuphealthchecktimeout"))
        download, startup = (_positive(value) or LONGEST_STARTUP for value in stated)
        return min(download, LONGEST_STARTUP), min(startup, LONGEST_STARTUP)

    @property
    def hosting(self) -> HubHosting:
        """What the document says about instances."""
        ami, volume = self._fields.get("inferenceamiversion"), self._fields.get("inferencevolumesize")
        return HubHosting(
            ami if isinstance(ami, str) and _AMI.fullmatch(ami) else None,
            min(size, LARGEST_VOLUME) if (size := _positive(volume)) is not None else None,
        )

    @property
    def network_isolation(self) -> bool:
        """Whether the container runs without a network: yes, unless the document says that it needs one."""
        return self._fields.get("inferenceenablenetworkisolation") is not False

    def additional_files(self) -> Iterator[AdditionalFiles]:
        """Yield the configuration's files next to the model, whose paths its environment names; the first of a channel.

        Raises:
            DeploymentError: if the document does not say where they are.
        """
        seen = set[str]()
        for source in list_in(nested(self._fields, "hostingadditionaldatasources", "speculativedecoding")):
            channel, uri = nested(source, "channelname"), nested(source, "s3datasource", "s3uri")
            if not isinstance(channel, str) or not isinstance(uri, str) or not uri.startswith("s3://"):
                raise DeploymentError(
                    f"the hub's document of {self._model} names additional files without a channel or an S3 prefix: "
                    "choose another version of the model, or another configuration"
                )
            if channel in seen:
                # The same files of another provider.
                continue
            seen.add(channel)
            yield AdditionalFiles(channel, f"{uri.rstrip('/')}/", _eula_of(source))

    def draft(self, provider: str) -> tuple[str, str | None]:
        """Return the S3 prefix of ``provider``'s draft for the model, and the license's URI if the draft is gated."""
        for fields in (self._fields, *self._components.values()):
            for source in list_in(nested(fields, "hostingadditionaldatasources", "speculativedecoding")):
                uri = nested(source, "s3datasource", "s3uri")
                is_of_provider = str(nested(source, "provider", "name")).lower() == provider
                if is_of_provider and isinstance(uri, str) and uri.startswith("s3://"):
                    return uri, _eula_of(source)
        raise DeploymentError(
            f"the hub's document of {self._model} names no draft model by {provider}; use "
            "SpeculativeDecoding.jumpstart_draft(...) or .custom_draft(...)"
        )

    def container(self, instance_type: str) -> tuple[str, dict[str, str]]:
        """Return the image and environment of the model's container on ``instance_type``."""
        variants = object_in(self._fields.get("hostinginstancetypevariants"))
        aliases = {f"${name}": value for name, value in object_in(variants.get("aliases")).items()}
        image = self._fields.get("hostingecruri")
        environment = {
            str(variable["name"]): str(variable["default"])
            for variable in map(object_in, list_in(self._fields.get("inferenceenvironmentvariables")))
            if "name" in variable and variable.get("requiredformodelclass") and variable.get("default") is not None
        }
        for key in (instance_type.removeprefix("ml.").partition(".")[0], instance_type):
            layer = nested(variants, "variants", _folded(key), "properties")
            image = nested(layer, "imageuri") or image
            environment |= {k: str(v) for k, v in object_in(nested(layer, "environmentvariables")).items()}
        image = aliases.get(_folded(str(image)), image)
        if not isinstance(image, str) or image.startswith("$"):
            raise DeploymentError(f"the hub's document of {self._model} names no container image for {instance_type}")
        return image, environment


def hub_content(sagemaker: SageMakerClient, hub_name: str, model_id: str, version: str | None) -> tuple[str, str]:
    """Return a model's document as text, and its version."""
    try:
        content = sagemaker.describe_hub_content(
            HubName=hub_name,
            HubContentType="Model",
            HubContentName=model_id,
            **({"HubContentVersion": version} if version else {}),
        )
    except ClientError as error:
        if code_of(error) != "ResourceNotFound":
            raise
        of_version = f" in version {version}" if version else ""
        raise DeploymentError(
            f"the hub {hub_name} has no model {model_id!r}{of_version} in this Region. `aws sagemaker "
            f"list-hub-content-versions --hub-name {hub_name} --hub-content-type Model --hub-content-name {model_id}` "
            f"lists the versions. SageMaker's error: {message_of(error)}"
        ) from None
    return content["HubContentDocument"], content["HubContentVersion"]


def _positive(value: object) -> int | None:
    """Return a number above zero; None for anything else, such as true, which is a number in Python alone."""
    return value if type(value) is int and value > 0 else None


def _eula_of(source: object) -> str | None:
    """Return the license of gated additional files."""
    if str(nested(source, "provider", "classification")).lower() != "gated":
        return None
    return str(nested(source, "hostingeulauri") or nested(source, "hostingeulakey") or "see the model card")


def _folded(name: str) -> str:
    return name.replace("_", "").lower()


def _fold(value: object) -> object:
    if is_object(value):
        # The names of environment variables are data, not keys of the document.
        return {
            _folded(key): item if _folded(key) == "environmentvariables" else _fold(item) for key, item in value.items()
        }
    return [_fold(item) for item in value] if is_list(value) else value
