"""``constructs-optim medusa``: verifies Medusa heads on any machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from .aws import failed
from .commands import Commands
from .installation import installing
from .presentation import JsonOption, print_fields, print_json, say

if TYPE_CHECKING:
    from constructs_optim.training.decoding.verification import Verification

medusa_app = Commands(help="Verify Medusa heads.")
_EXTRA = ("torch", "transformers", "safetensors")


@medusa_app.command("verify")
def verify_command(
    heads: Annotated[Path, typer.Option(metavar="DIR", help="Artifact with medusa_lm_head.safetensors.")],
    data: Annotated[Path, typer.Option(metavar="FILE", help="Prompts, in the JSON Lines format of training.")],
    base: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Model of the heads. Default: base-model in the artifact.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, metavar="COUNT", help="Maximum number of prompts to decode.")] = 450,
    max_tokens: Annotated[int, typer.Option(min=1, metavar="COUNT", help="Maximum tokens of a completion.")] = 128,
    precision: Annotated[
        Literal["float32", "bfloat16", "auto"],
        typer.Option(metavar="TYPE", help="float32, bfloat16, or auto: bfloat16 on GPUs that support it."),
    ] = "float32",
    tree_nodes: Annotated[
        int,
        typer.Option(
            min=0, metavar="COUNT", help="Candidates verified per pass. 0: the first of each head, as in servers."
        ),
    ] = 0,
    tie_margin: Annotated[
        float | None, typer.Option(min=0, metavar="LOGITS", help="Maximum difference of two logits that is a tie.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Decode prompts greedily with and without heads, and compare the outputs.

    Reports identical outputs, tokens per pass, and wall time. Exits with status 1 if outputs differ in float32. In
    bfloat16 a few may differ.

    Examples:
        constructs-optim medusa verify --heads artifact --data prompts.jsonl
          --limit 50
    """
    # The models are on disk.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    try:
        from constructs_optim.training.decoding.verification import verify_artifact
        from constructs_optim.training.errors import TrainingError, describe_error, is_out_of_memory
        from constructs_optim.training.model.backbone import say_nothing_while_loading
    except ModuleNotFoundError as missing:
        if (missing.name or "").split(".")[0] not in _EXTRA:
            raise
        raise failed(f"Verifying heads is an extra: {installing('medusa')}") from None
    say_nothing_while_loading()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    try:
        with Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as shown:
            bar = shown.add_task("prompts", total=None)
            verification = verify_artifact(
                base or heads / "base-model",
                heads,
                data,
                limit=limit,
                maximum_new_tokens=max_tokens,
                precision=precision,
                tree_nodes=tree_nodes,
                tie_margin=tie_margin,
                progress=lambda done, of: shown.update(bar, completed=done, total=of),
            )
    except TrainingError as error:
        raise failed(str(error)) from None
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        hint = "use --precision bfloat16 or a larger machine"
        raise failed(f"Out of memory: {hint} ({describe_error(error)})") from None
    if as_json:
        print_json(verification.to_json())
    else:
        _print(verification)
    raise typer.Exit(1 if verification.differences and verification.dtype == "float32" else 0)


def _print(verification: Verification) -> None:
    acceptance = "  ".join(f"{head}: {share:.0%}" for head, share in enumerate(verification.acceptance, start=1))
    count, ties = len(verification.differences), f"{verification.ties} ties computed separately"
    took, plain = (1000 * spent / verification.prompts for spent in (verification.seconds, verification.plain_seconds))
    print_fields(
        [
            ("Identical", f"{verification.identical:.2%} of {verification.prompts} outputs"),
            ("Tokens per pass", f"{verification.tokens_per_pass:.2f} (1 without heads)"),
            ("Wall time", f"{plain:.0f} → {took:.0f} ms per prompt: {verification.speed_up:.2f} times as fast"),
            ("Accepted, by head", acceptance),
            ("Computed", f"{verification.dtype}, batch 1, {verification.verified}; {ties}"),
            ("Machine", verification.machine),
        ]
    )
    for difference in verification.differences[:5]:
        say(f"Prompt {difference.prompt + 1} differs from token {difference.token + 1}.")
    if count > 5:
        say(f"{count - 5} more prompts differ.")
