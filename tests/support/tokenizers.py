from __future__ import annotations

import json
from pathlib import Path

from tokenizers import Tokenizer, models, pre_tokenizers, processors

TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "{% if message['role'] == 'tool' %}{{ raise_exception('no tools') }}{% endif %}"
    "<{{ message['role'] }}> {{ message['content'] }} </s> {% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def model(folder: Path, *, template: str | None = TEMPLATE, file: bool = False) -> Path:
    """A model folder with a word tokenizer that starts each text with a beginning-of-sequence token."""
    words = ["[UNK]", "<s>", "</s>", "<user>", "<assistant>", "one", "two", "three"]
    tokenizer = Tokenizer(models.WordLevel({word: place for place, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    tokenizer.enable_truncation(4)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"bos_token": {"content": "<s> "}, "chat_template": None if file else template}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    if file and template:
        (folder / "chat_template.jinja").write_text(template)
    return folder
