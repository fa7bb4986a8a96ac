"""Rules for arguments of the engine that name the quantization of the weights, or that depend on it."""

from __future__ import annotations

from collections.abc import Iterator

from constructs_optim.recipe.catalog import engine_models, images
from constructs_optim.recipe.memory import engine_setting
from constructs_optim.recipe.parallelism import stored_quantization
from constructs_optim.recipe.recipe import Recipe

from .registry import Finding, rule

_HALF_BITS = 16
DEPRECATED = "allow_deprecated_quantization"
"""The switch with which vLLM loads weights with a deprecated method."""
_LEAVE_OUT = "leave the variable out"
# vLLM's methods whose configuration is a file of the checkpoint (get_config_filenames of layers/quantization), without
# which it does not start: "Cannot find the config file for awq" (model_executor/model_loader/weight_utils.py).
_READ_FROM_FILES = frozenset(
    {
        *("auto_awq", "auto_gptq", "awq", "awq_marlin", "compressed-tensors", "gptq", "gptq_marlin", "inc", "modelopt"),
        *("fbgemm_fp8", "modelopt_fp4", "modelopt_mixed", "modelopt_mxfp8", "moe_wna16", "quark", "torchao"),
    }
)
# The names under which vLLM 0.30 loads weights of a method (override_quantization_method of layers/quantization), for
# methods of which it refuses all others (_verify_quantization of config/model.py). Of ModelOpt's it ignores the name.
_NAMES = {
    "awq": frozenset({"auto_awq", "awq", "awq_marlin", "moe_wna16"}),
    "compressed-tensors": frozenset({"compressed-tensors"}),
    "fp8": frozenset({"deepseek_v4_fp8", "fp8"}),
    "gptq": frozenset({"auto_gptq", "gptq", "gptq_marlin", "moe_wna16"}),
}
# A method that loads the weights of several others; it needs a package of its own.
_OF_OTHERS = "humming"


@rule("OPT274", "https://docs.vllm.ai/en/latest/features/quantization/")
def _a_named_quantization_is_of_the_weights(recipe: Recipe) -> Iterator[Finding]:
    """A variable names the quantization that the weights have: vLLM reads the method's configuration from the model's
    files, and does not start with weights in 16 bits, or of another method.
    """
    server = recipe.serving_settings
    if server.name not in images.VLLM or any(each.hub_configuration for _, each in recipe.located_techniques):
        return
    for name in (server.variable("quantization"), "OPTION_QUANTIZE"):
        named = recipe.variables.get(name, "").strip().lower() if name.startswith(server.prefix) else ""
        if named and (wrong := _misnamed(recipe, named)) is not None:
            reason, fix = wrong
            yield Finding(f"environment.{name}", recipe.variables[name], fix, reason)


def _misnamed(recipe: Recipe, named: str) -> tuple[str, str] | None:
    """Return why the served weights cannot be loaded with a method, and what works; None if they can."""
    row, stored, model = recipe.model_row, stored_quantization(recipe), recipe.served_model.name
    if stored is not None:
        names = _NAMES.get(stored.method, frozenset({named}))
        if named in names or named == _OF_OTHERS:
            return None
        fix = f"{_LEAVE_OUT}: vLLM reads the method from the model's files"
        return f"the weights are quantized with {stored.method}, and vLLM does not load them with {named}", fix
    if row is None or row.weight_bits < _HALF_BITS:
        return None
    is_known = row.precision == "bf16" or row.hidden_size is not None
    if not is_known or any(each.weight_bits for _, each in recipe.located_techniques):
        return None
    if named in _READ_FROM_FILES:
        fix = f"{_LEAVE_OUT}, and quantize the weights with a technique"
        return f"the weights of {model} have 16 bits, and no files of this quantization", fix
    known = engine_models.of_image(recipe.serving_image.image)
    if known is not None and known.quantization.is_deprecated(named) and engine_setting(recipe, DEPRECATED) != "true":
        fix = f'environment={{"{recipe.variable(DEPRECATED)}": "true"}}, or fp8 instead'
        return f"{known.title} {known.release} loads this quantization only on request: the method is deprecated", fix
    return None
