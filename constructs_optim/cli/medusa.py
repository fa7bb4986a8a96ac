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
from .presentation import FormatOption, print_fields, print_json, say

if TYPE_CHECKING:
    from constructs_optim.training.decoding.verification import Verification

medusa_app = Commands()
_EXTRA = ("torch", "transformers", "safetensors")


@medusa_app.command("verify")
def verify_command(
    heads: Annotated[Path, typer.Option(metavar="FOLDER", help="The artifact, with medusa_lm_head.safetensors.")],
    data: Annotated[Path, typer.Option(metavar="FILE", help="Prompts: JSON Lines as for training.")],
    base: Annotated[Path | None, typer.Option(help="The heads' model; by default base-model of the artifact.")] = None,
    limit: Annotated[int, typer.Option(min=1, metavar="COUNT", help="The maximum number of prompts to decode.")] = 450,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="The maximum number of tokens of a completion.")] = 128,
    precision: Annotated[
        Literal["float32", "bfloat16", "auto"],
        typer.Option(help="float32, bfloat16, or auto: bfloat16 on GPUs that have it."),
    ] = "float32",
    tree_nodes: Annotated[
        int, typer.Option(min=0, help="Candidates verified per pass; 0: each head's first, as in servers.")
    ] = 0,
    tie_margin: Annotated[float | None, typer.Option(min=0, help="The difference of two logits that is a tie.")] = None,
    format: FormatOption = "table",
) -> None:
    """Decode prompts greedily with and without heads, and compare: outputs, tokens a pass, wall time.

    Exit status 1 when outputs differ in float32, where they must not. In bfloat16 some may: how many is printed.
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
        raise failed('Verifying heads is an extra: pip install "constructs-optim[medusa]"') from None
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
                maximum_new_tokens=max_new_tokens,
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
        hint = "try --precision bfloat16 or a larger machine"
        raise failed(f"out of memory: {hint} ({describe_error(error)})") from None
    if format == "json":
        print_json(verification.to_json())
    else:
        _print(verification)
    raise typer.Exit(1 if verification.differences and verification.dtype == "float32" else 0)


def _print(verification: Verification) -> None:
    acceptance = "  ".join(f"{head}: {share:.0%}" for head, share in enumerate(verification.acceptance, start=1))
    count, ties = len(verification.differences), f"{verification.ties} ties computed alone"
    took, plain = (1000 * spent / verification.prompts for spent in (verification.seconds, verification.plain_seconds))
    print_fields(
        [
            ("identical", f"{verification.identical:.2%} of {verification.prompts} outputs"),
            ("tokens a pass", f"{verification.tokens_per_pass:.2f}, against 1 without heads"),
            ("wall time", f"{plain:.0f} → {took:.0f} ms a prompt: {verification.speed_up:.2f} times as fast"),
            ("accepted, by head", acceptance),
            ("computed", f"{verification.dtype}, batch 1, {verification.verified}; {ties}"),
            ("machine", verification.machine),
        ]
    )
    for difference in verification.differences[:5]:
        say(f"prompt {difference.prompt + 1} differs from token {difference.token + 1} on")
    if count > 5:
        say(f"and {count - 5} more")
