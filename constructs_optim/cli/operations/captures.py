"""``constructs-optim captures``: an endpoint's captured traffic as prompts, a workload or training data."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from constructs_optim.operations.captures import CaptureFormat, Written, exported, files_of

from ..aws import Account, Profile, Region, failed
from ..presentation import say

_HINTS = {
    CaptureFormat.CAPTURES: "aiperf profile ... --custom-dataset-type sagemaker_data_capture --input-file {file} "
    "--fixed-schedule replays it; below a prefix of S3 it is training_data of SpeculativeDecoding.eagle.",
    CaptureFormat.PROMPTS: "constructs-optim evaluate TARGET --prompts {file} sends it.",
    CaptureFormat.TEXT: 'In S3 it is Workload(prompts="s3://...") of an evaluation.',
}


def captures_command(
    source: Annotated[
        str,
        typer.Argument(
            help="Where captures are: s3://bucket/captures/chat/AllTraffic/2026/11/, or a folder that they were "
            "copied to."
        ),
    ],
    file: Annotated[Path, typer.Argument(help="The file that is written; one that exists is not replaced.")],
    form: Annotated[
        CaptureFormat,
        typer.Option(
            "--as",
            help="captures: for AIPerf, and to train on. prompts: for constructs-optim evaluate. text: for "
            "Workload(prompts=).",
        ),
    ] = CaptureFormat.CAPTURES,
    sample: Annotated[
        float, typer.Option(min=0, max=100, metavar="PERCENT", help="The share that is taken, the same each time.")
    ] = 100,
    redact: Annotated[
        bool,
        typer.Option("--redact", help="Replace e-mail and IP addresses, long numbers and secrets. It finds no names."),
    ] = False,
    region: Region = None,
    profile: Profile = None,
) -> None:
    """Write an endpoint's captured traffic as a workload, as prompts, or as training data."""
    if not sample:
        raise typer.BadParameter("--sample 0 takes nothing: use more than 0, up to 100")
    account, counts = Account(profile, region), Written()
    try:
        # Prompts and answers are personal data: for the user alone.
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise failed(f"{file} cannot be written: {error.strerror}.") from None
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as output:
            files = files_of(source, lambda: account.client("s3"))
            for line in exported(files, form, counts, sample=sample / 100, redact=redact):
                output.write(f"{line}\n")
    except BaseException:
        file.unlink(missing_ok=True)
        raise
    if not counts.written:
        file.unlink()
        raise failed(f"None of the captures below {source} can be used as {form.value}: {_left_out(form)}.")
    say(f"{counts.written} of {counts.read} captures are in {file}.")
    if counts.unusable:
        say(f"{counts.unusable} were left out: {_left_out(form)}.")
    if not redact:
        say("Nothing is redacted: prompts and answers are as users sent and received them.")
    say(_HINTS[form].format(file=file))


def _left_out(form: CaptureFormat) -> str:
    return {
        CaptureFormat.CAPTURES: "AIPerf and the job for EAGLE heads read chats (messages)",
        CaptureFormat.PROMPTS: "they have neither messages, prompt nor inputs",
        CaptureFormat.TEXT: "they have no text",
    }[form]
