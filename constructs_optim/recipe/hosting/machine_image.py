"""The machine image of a variant's instances, and the containers that run on it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from constructs_optim.recipe.catalog import images, instances, machine_images
from constructs_optim.recipe.catalog.images import ImageRow
from constructs_optim.recipe.catalog.instances import InstanceRow
from constructs_optim.recipe.plan_data import Plan
from constructs_optim.recipe.tokens import is_token


@dataclass(frozen=True)
class HostedContainer:
    """A container on a cataloged instance type; ``cuda`` is the release that its image is built for, if known."""

    name: str
    cuda: str | None
    instance_type: str

    @staticmethod
    def of(plan: Plan) -> HostedContainer | None:
        """Return a plan's container; None if a hub's configuration determines it, or its instance type is unknown."""
        image = plan.container.image
        if image is None or instances.find(plan.instance_type) is None:
            return None
        name = image.rpartition("/")[2]
        return HostedContainer(name, _described(name).cuda, plan.instance_type)

    @property
    def instance(self) -> InstanceRow:
        """Its instance type."""
        return instances.by_name()[self.instance_type]

    @property
    def needed(self) -> str | None:
        """The machine image that it needs on its instance type; None if the default works or none is documented."""
        return machine_images.needed(self.cuda, self.instance)

    def reported_failure(self, driver: int | None) -> str | None:
        """Return the report of such a container that failed with an NVIDIA driver, or with the default one if None."""
        driver = driver or machine_images.default_driver(self.instance)
        if driver is None:
            return None
        return machine_images.reported_failure(_described(self.name), self.instance, driver)

    def mismatch(self, driver: int) -> str | None:
        """Return why an NVIDIA driver does not run it; None if it does, or that is unknown."""
        for least, what in (
            (machine_images.least_driver(self.cuda), f"{self.name} is built for CUDA {self.cuda}, which"),
            (machine_images.least_driver_of(self.instance), f"{self.instance.name}"),
        ):
            if least is not None and driver < least:
                return f"{what} needs NVIDIA driver {least} or later"
        return None


@dataclass(frozen=True)
class MachineImageUse:
    """The containers of one variant, which has one machine image, and the machine image that it sets, if any.

    ``location`` is the argument that sets the machine image, or would.
    """

    version: str | None
    containers: Sequence[HostedContainer]
    location: str = "variant.inference_ami_version"

    @property
    def needed(self) -> str | None:
        """The machine image that the containers need: the one with the newest driver; None if the default works."""
        return newest(container.needed for container in self.containers)

    @property
    def driver(self) -> int | None:
        """The driver of the variant's machine image; None for the default, a token, and an unknown machine image."""
        image = machine_images.by_name().get(self.version or self.needed or "")
        return image.driver if image is not None else None


def _described(name: str) -> ImageRow:
    return images.find(name) or images.uncataloged(name)


def newest(versions: Iterable[str | None]) -> str | None:
    """Return the machine image with the newest driver; None if there are none."""
    known = machine_images.by_name()
    return max(filter(None, versions), key=lambda name: known[name].driver or 0, default=None)


def machine_image_of(plans: Iterable[Plan], version: str | None) -> MachineImageUse:
    """Return the machine image of a variant with these plans' containers; ``version`` is set, or None."""
    containers = dict.fromkeys(filter(None, map(HostedContainer.of, plans)))
    # A token's machine image is known only at deployment.
    return MachineImageUse(None, ()) if is_token(version) else MachineImageUse(version, tuple(containers))
