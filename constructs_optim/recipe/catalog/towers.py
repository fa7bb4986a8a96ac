"""The encoders of images and sound in front of a language model, and how vLLM splits them among accelerators."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from typing import Literal

from pydantic import AliasChoices, BaseModel, Field

from . import load
from .geometry import ConfigPart, Name, Whole
from .splits import Layer, Split, split_of

Encoder = Literal["vision", "audio"]


class EncoderConfig(ConfigPart):
    """The part of a ``config.json`` that describes an encoder.

    The names are those of transformers' and vLLM's configurations; the first that is present counts.
    """

    heads: Whole = Field(
        default=None,
        validation_alias=AliasChoices(
            "vt_num_attention_heads", "encoder_attention_heads", "num_attention_heads", "num_heads", "heads"
        ),
    )
    width: Whole = Field(
        default=None, validation_alias=AliasChoices("vt_intermediate_size", "encoder_ffn_dim", "intermediate_size")
    )

    @property
    def split(self) -> Split:
        """What can be split of the encoder."""
        return split_of(self.heads, width=self.width)


class Tower(BaseModel, frozen=True, extra="forbid"):
    """How vLLM splits an encoder of an architecture; the catalog file's ``source`` describes the columns."""

    architecture: Name
    encoder: Encoder
    heads: bool = False
    width: bool = False
    copied: bool = False
    data: bool = False

    def part(self, split: Split, degree: int) -> Split:
        """Return what is split of an encoder among ``degree`` accelerators."""
        if self.copied and (split.heads or degree) % degree:
            return Split()
        return Split(heads=split.heads if self.heads else None, width=split.width if self.width else None)


@cache
def _of_vllm() -> Mapping[tuple[str, str], Tower]:
    rows = (Tower.model_validate(row) for row in load("towers")["towers"])
    return {(row.architecture, row.encoder): row for row in rows}


def split_towers(
    architectures: Collection[str], parts: Mapping[Layer, Split], degree: int, *, whole: bool
) -> dict[Layer, Split]:
    """Return the parts of a model without what vLLM does not split of its encoders among ``degree`` accelerators.

    ``whole``: whether each accelerator has all of an encoder, if vLLM can do that (``--mm-encoder-tp-mode data``).
    """
    rows = _of_vllm()
    kept: dict[Layer, Split] = {}
    for name, split in parts.items():
        if name not in ("vision", "audio"):
            kept[name] = split
            continue
        row = next((rows[each, name] for each in architectures if (each, name) in rows), None)
        if row is not None and not (whole and row.data):
            kept[name] = row.part(split, degree)
    return kept
