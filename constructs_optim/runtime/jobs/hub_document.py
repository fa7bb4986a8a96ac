"""JumpStart's documents, as ``DescribeHubContent`` returns them.

Keys are matched without case and underscores ("HostingEcrUri", "image_uri"). An inference configuration names
components, which override the base document in order. The first configuration in the overall ranking is the default.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from ..documents import is_list, is_object, json_value, list_in, nested, object_in
from ..errors import DeploymentError, code_of, message_of

if TYPE_CHECKING:
    from mypy_boto3_sagemaker.client import SageMakerClient

LONGEST_STARTUP = 3600
"""The API's limit in seconds for downloading a model, and for loading it."""
_ARTIFACTS = ("hostingprepackedartifacturi", "hostingartifacturi")


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
        return "see the model card" if self._fields.get("gatedbucket") else None

    @property
    def model_uri(self) -> str:
        """The S3 prefix of the model's uncompressed files."""
        uri = next((self._fields[key] for key in _ARTIFACTS if self._fields.get(key)), None)
        if not isinstance(uri, str) or not uri.startswith("s3://"):
            raise DeploymentError(f"the hub's document of {self._model} names no model artifact in S3")
        if uri.endswith((".tar.gz", ".tgz")):
            raise DeploymentError(
                f"{self._model} is stored as an archive ({uri}), but uncompressed files are needed: choose a newer "
                "version, or copy the unpacked files to S3 and use Model.s3(...)"
            )
        return uri

    @property
    def startup_timeouts(self) -> tuple[int, int]:
        """The limits in seconds for downloading and loading the model, by default an hour."""
        stated = (self._fields.get(name) for name in ("modeldatadownloadtimeout", "containerstartuphealthchecktimeout"))
        download, startup = (value if isinstance(value, int) and value > 0 else LONGEST_STARTUP for value in stated)
        return min(download, LONGEST_STARTUP), min(startup, LONGEST_STARTUP)

    def draft(self, provider: str) -> tuple[str, str | None]:
        """Return the S3 prefix of ``provider``'s draft for the model, and the license's URI if the draft is gated."""
        for fields in (self._fields, *self._components.values()):
            for source in list_in(nested(fields, "hostingadditionaldatasources", "speculativedecoding")):
                uri = nested(source, "s3datasource", "s3uri")
                is_of_provider = str(nested(source, "provider", "name")).lower() == provider
                if is_of_provider and isinstance(uri, str) and uri.startswith("s3://"):
                    gated = str(nested(source, "provider", "classification")).lower() == "gated"
                    eula = nested(source, "hostingeulauri") or nested(source, "hostingeulakey") or "see the model card"
                    return uri, str(eula) if gated else None
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


def _folded(name: str) -> str:
    return name.replace("_", "").lower()


def _fold(value: object) -> object:
    if is_object(value):
        # The names of environment variables are data, not keys of the document.
        return {
            _folded(key): item if _folded(key) == "environmentvariables" else _fold(item) for key, item in value.items()
        }
    return [_fold(item) for item in value] if is_list(value) else value
