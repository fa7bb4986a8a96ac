"""Makes a model's configuration and tokenizer readable for servers built on transformers 4.

These servers cannot read transformers 5's files. It writes the base of the rotary embeddings below ``rope_parameters``,
where Text Generation Inference finds no ``rope_theta`` and uses 10,000 (``flash_llama_modeling.py``). The tokenizer's
class is ``TokenizersBackend``, which it does not know. The chat template is in a separate file, but its router reads
``tokenizer_config.json`` (``router/src/server.rs``). This module writes both formats.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..documents import json_object
from ..errors import UnusableModel


def write_served_configuration(folder: Path) -> None:
    """Add ``rope_theta``, ``rope_scaling`` and ``torch_dtype`` to a model's ``config.json``, if they are missing."""
    path = folder / "config.json"
    content = json_object(path, UnusableModel)
    rope = content.get("rope_parameters")
    if isinstance(rope, dict) and "rope_type" in rope:
        content.setdefault("rope_theta", rope.get("rope_theta", 10_000.0))
        scaled = {name: value for name, value in rope.items() if name != "rope_theta"}
        content.setdefault("rope_scaling", None if rope["rope_type"] == "default" else scaled)
    if content.get("dtype"):
        content.setdefault("torch_dtype", content["dtype"])
    _write(path, content)


def write_served_tokenizer(folder: Path) -> None:
    """Set a class that servers know in ``tokenizer_config.json``, and add the chat template."""
    path = folder / "tokenizer_config.json"
    if not path.is_file():
        return
    content = json_object(path, UnusableModel)
    if content.get("tokenizer_class") == "TokenizersBackend":
        content["tokenizer_class"] = "PreTrainedTokenizerFast"
    more = content.get("extra_special_tokens")
    if isinstance(more, list):
        content.setdefault("additional_special_tokens", more)
        del content["extra_special_tokens"]
    template = folder / "chat_template.jinja"
    if template.is_file():
        content.setdefault("chat_template", template.read_text(encoding="utf-8"))
    _write(path, content)


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
