"""How settings are written in code or in a file, and where the setting that a word means is."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard, cast

from .errors import close_matches
from .secrets import without_secrets
from .tokens import is_token

KEYS = {"add_adapter": "adapters", "add_component": "components", "auto_scale": "scaling", "evaluate": "evaluations"}
"""The keys of a file for methods, where they are not the methods' names."""
# Words of other tools and engines for settings and techniques, and those of code and files for each other's.
_ALSO_CALLED = {
    "async": ["async_inference"],
    "asynchronous": ["async_inference"],
    "blue_green": ["update_policy"],
    "container": ["server"],
    "container_image": ["container_version"],
    "deployment_config": ["update_policy"],
    "desired_count": ["copies", "initial_instance_count"],
    "enable_chunked_prefill": ["chunked_prefill"],
    "enable_prefix_caching": ["prefix_caching"],
    "engine": ["server"],
    "env": ["environment"],
    "execution_role": ["role"],
    "execution_role_arn": ["role"],
    "fine_tuning": ["fine_tune"],
    "finetuning": ["fine_tune"],
    "float8": ["fp8"],
    "framework": ["server"],
    "gptq": ["w4a16"],
    "hf_token": ["token_secret_arn"],
    "image": ["container_version"],
    "image_tag": ["container_version"],
    "image_uri": ["container_version"],
    "initial_instance_count": ["copies", "instance_count"],
    "instance_count": ["copies", "initial_instance_count"],
    "instances": ["initial_instance_count"],
    "int4": ["awq"],
    "int8": ["smoothquant"],
    "key": ["encryption_key"],
    "kms_key": ["encryption_key"],
    "kms_key_arn": ["encryption_key", "encryption_key_arn"],
    "kms_key_id": ["encryption_key"],
    "lora": ["fine_tune", "adapters"],
    "max_instances": ["max_capacity"],
    "max_lora_rank": ["max_rank"],
    "max_loras": ["max_loaded"],
    "max_model_len": ["context_length"],
    "max_num_seqs": ["max_concurrent_requests"],
    "min_instances": ["min_capacity"],
    "quantize": ["quantization"],
    "replicas": ["copies", "initial_instance_count"],
    "sampling_percentage": ["sample_percent"],
    "security_group_ids": ["security_groups"],
    "sns_topic": ["alarm_actions"],
    "subnet_ids": ["vpc_subnets"],
    "subnets": ["vpc_subnets", "subnet_ids"],
    "tgi": ["text_generation_inference"],
    "topic": ["alarm_actions"],
    "vpc_config": ["vpc"],
    "vpc_id": ["vpc"],
    "vpc_subnets": ["subnet_ids"],
    **{method: [key] for method, key in KEYS.items()},
}
# Of more places of a setting, a hint shows the first ones.
_MOST_PLACES, _SHOWN_PLACES = 5, 2
_LONGEST_VALUE = 80
_INNER = "\0"
# Synonyms whose values are of another kind: a token and the ARN of its secret, the URI of an image and its version.
_OF_OTHER_VALUES = {"container_image", "hf_token", "image", "image_uri", "lora"}


def meant(name: str, names: Iterable[str]) -> list[str]:
    """Return which of ``names`` a text can mean: its synonym, or up to two similar names."""
    known = [*names]
    synonyms = [each for each in _ALSO_CALLED.get(name.lower(), ()) if each in known]
    return synonyms or close_matches(name, known)[:2]


def meant_name(names: Iterable[str], name: object) -> str:
    """Return a hint with the closest of ``names`` to a misspelled name, or with all of them."""
    known = list(dict.fromkeys(names))
    near = similar(known, name)
    near += [each for each in known if each.endswith(f"_{name}") and each not in near][:2]
    return _asked(near) if near else f"it has {', '.join(known)}"


def similar(names: Iterable[str], name: object) -> list[str]:
    """Return up to two of ``names`` that are similar to a misspelled name."""
    # Without underscores, instancetype is closer to instance_type than to instance_pools.
    bare = {known.replace("_", ""): known for known in names}
    return [bare[known] for known in close_matches(str(name).replace("_", ""), bare)][:2]


def in_code(value: object) -> str:
    """Return a value as code, or the name of a variable for a construct; ``...`` if its code is not known."""
    if hasattr(type(value), "as_code"):
        return cast("Any", value).as_code()
    if isinstance(value, list | tuple):
        items = cast("Sequence[object]", value)
        codes = [in_code(each) for each in items]
        return f"[{', '.join(codes)}]" if "..." not in codes else "..."
    if isinstance(value, dict):
        pairs = cast("dict[object, object]", value).items()
        return f"{{{', '.join(f'{in_code(key)}: {in_code(each)}' for key, each in pairs)}}}"
    if isinstance(value, str | int | float | None):
        text = repr(value)
        return text if len(text) <= _LONGEST_VALUE and not is_token(value) else "..."
    for method, code in (("to_seconds", "Duration.seconds({})"), ("to_mebibytes", "Size.mebibytes({})")):
        if hasattr(value, method) and not isinstance(value, type):
            try:
                return code.format(getattr(value, method)())
            except RuntimeError:  # not a whole number
                return "..."
    names = [name for name in dir(type(value)) if name.endswith(("_arn", "_id")) and not name.startswith("_")]
    stems = list(dict.fromkeys(name.rpartition("_")[0] for name in names))
    own = [stem for stem in stems if stem.replace("_", "") in type(value).__name__.lower()]
    return next((found[0] for found in (stems, own) if len(found) == 1), "...")


@dataclass(frozen=True)
class Form:
    """How settings are written: a call with arguments in code, or a mapping with keys in a file.

    Attributes:
        members: the names of the settings, with the forms of those that have settings themselves.
        needed: the settings without which the others are refused.
        around: the text around the settings, such as ``NetworkOptions({})``.
        pair: the text of one setting, such as ``{}={}``.
        text: returns the text of a setting's value.
        words: the words that mean the settings as a whole, such as ``awq``.
        methods: the calls of methods by the words that mean them, with ``VALUE`` in place of the word's value.
    """

    members: Mapping[str, Sequence[Form]]
    needed: Sequence[str] = ()
    around: str = "{}"
    pair: str = "{}={}"
    text: Callable[[str, object], str] = lambda _, value: in_code(value)
    words: Sequence[str] = ()
    methods: Mapping[str, str] = field(default_factory=dict[str, str])

    def written(self, texts: Mapping[str, str]) -> str:
        """Return the text of the settings with the texts of some of them."""
        values = {**dict.fromkeys(self.needed, "..."), **texts}
        return self.around.replace("{}", ", ".join(self.pair.format(*each) for each in values.items()))

    def of_value(self, value: object) -> str:
        """Return the text of the settings, with those in ``value`` if it is a mapping of them."""
        given = _mapping(value)
        known = given.keys() <= self.members.keys()
        return self.written({name: self.member(name, each) for name, each in given.items() if known})

    def member(self, name: str, value: object) -> str:
        """Return the text of a setting's value: for a mapping, of the setting's own settings with all needed ones."""
        if value is None or _is_mapping(value):
            for form in self.members[name]:
                if _mapping(value).keys() <= form.members.keys():
                    return form.of_value(value)
        return self.text(name, ... if value is None else value)

    def inside(self, is_meant: Callable[[str], bool], value: object) -> list[str]:
        """Return how to write the settings inside of others whose names are meant; only the outermost ones."""
        level = [(form, self.written({name: _INNER})) for name, forms in self.members.items() for form in forms]
        while level:
            items = [
                (item, text.replace(_INNER, form.written({"": _INNER})))
                for form, text in level
                for item in form.members.get("", ())
            ]
            whole = [(form, text) for form, text in [*level, *items] if any(map(is_meant, form.words))]
            # A technique's name, in place of its kind.
            named = [(form, text) for form, text in whole if isinstance(value, str) and value in form.words]
            found = [text.replace(_INNER, form.of_value(value)) for form, text in named or whole]
            found += [
                text.replace(_INNER, form.written({name: form.member(name, value)}))
                for form, text in level
                for name in filter(is_meant, form.members)
            ]
            if found:
                return list(dict.fromkeys(found))
            level = [
                (inner, text.replace(_INNER, form.written({name: _INNER})))
                for form, text in level
                for name, forms in form.members.items()
                for inner in forms
            ]
        return []

    def own(self, word: str) -> list[str]:
        """Return the names of the settings of this form that a word means."""
        bare = {each.replace("_", ""): each for each in self.members}
        found = [bare[each] for each in _bare_words(word) if each in bare]
        return found or [each for each in self.members if each.endswith(f"_{word}")]

    def deeper(self, word: str, value: object, here: Collection[str] = ()) -> list[str]:
        """Return how to write the settings inside of others that a word means, without those ``here``."""
        words = _bare_words(word)
        return self.inside(lambda each: each.replace("_", "") in words and each not in here, value)

    def hint(
        self, word: str, value: object = ..., around: Iterable[tuple[str, Form]] = (), here: Collection[str] = ()
    ) -> str:
        """Return where the setting that an unknown word means is; or else similar names, or all names.

        A setting of this form is likelier to be meant than one inside of another, and that than one beside this form.

        Args:
            word: the word.
            value: its value.
            around: the forms around this one, the innermost first, each with the name of the setting that this one is.
            here: the words that mean this form itself, which has no setting of the name.
        """
        value = None if word in _OF_OTHER_VALUES else without_secrets(value, word, ...)
        if word in self.methods:
            return f"call its method {self.call(word, value)}"
        if own := self.own(word):
            return _asked(own)
        inside = self.deeper(word, value, here)
        if not inside and (method := self.method_of(word)):
            return f"call its method {self.call(method, value)}"
        names_here = {*here}
        for beside, form in around:
            names_here.add(beside)
            if word in form.methods:
                return f"call the method {form.call(word, value)}"
            names = [form.pair.format(name, form.member(name, value)) for name in form.own(word) if name != beside]
            if found := names or ([] if inside else form.deeper(word, value, names_here)):
                is_within = all(each.startswith(form.pair.format(beside, "")) for each in found)
                return _asked([*inside, _joined(found) + ("" if is_within else f" beside {beside}")])
            if not inside and (method := form.method_of(word)):
                return f"call the method {form.call(method, value)}"
        if word == "tags" and self.pair != FILE_PAIR:
            tags = _mapping(value) or {"team": "nlp"}
            return "; ".join(f"Tags.of(construct).add({key!r}, {tag!r})" for key, tag in tags.items()) + " adds tags"
        if not inside and not similar(self.members, word):
            inside = self.inside(lambda each: each.endswith(f"_{word}"), value)
        return _asked(inside) if inside else meant_name(self.members, word)

    def method_of(self, word: str) -> str:
        """Return the word of a method that a word or its synonym means; empty without any."""
        return next((each for each in (word, *_ALSO_CALLED.get(word, ())) if each in self.methods), "")

    def call(self, word: str, value: object) -> str:
        """Return the call of the method that a word means, with the word's value."""
        return self.methods[word].replace(VALUE, in_code(value))


VALUE = "\1"
"""The place of a value in the text of a method's call."""
FILE_PAIR = "{}: {}"
"""The text of a setting in a file."""


def _bare_words(word: str) -> list[str]:
    """Return a word and its synonyms without underscores, which are easily forgotten."""
    return [each.replace("_", "") for each in (word, *_ALSO_CALLED.get(word, ()))]


def _is_mapping(value: object) -> TypeGuard[Mapping[str, object]]:
    return isinstance(value, Mapping)


def _mapping(value: object) -> Mapping[str, object]:
    return value if _is_mapping(value) else {}


def _asked(places: Sequence[str]) -> str:
    return f"did you mean {_joined(places)}?"


def _joined(places: Sequence[str]) -> str:
    if len(places) <= _MOST_PLACES:
        return " or ".join(places)
    return f"{' or '.join(places[:_SHOWN_PLACES])} and {len(places) - _SHOWN_PLACES} others"
