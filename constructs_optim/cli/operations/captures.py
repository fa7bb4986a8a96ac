"""``constructs-optim captures``: an endpoint's captured traffic as prompts, a workload, or training data."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from constructs_optim.operations.captures import CaptureFormat, Written, exported, files_of

from ..aws import Account, Profile, Region, failed
from ..output_files import writing
from ..presentation import OUTPUT_PANEL, JsonOption, print_json, say, working

_HINTS = {
    CaptureFormat.CAPTURES: "To replay it: aiperf profile ... --custom-dataset-type sagemaker_data_capture "
    "--input-file {file} --fixed-schedule. To train on it, upload it below an S3 prefix and pass that prefix as "
    "training_data to SpeculativeDecoding.eagle.",
    CaptureFormat.PROMPTS: "To send it: constructs-optim evaluate TARGET --prompts {file}.",
    CaptureFormat.TEXT: 'To evaluate with it, upload it to S3 and pass Workload(prompts="s3://...").',
}


def captures_command(
    source: Annotated[
        str,
        typer.Argument(
            help="S3 prefix of the captures, s3://bucket/captures/chat/AllTraffic/2026/11/, or a local copy."
        ),
    ],
    file: Annotated[
        Path,
        typer.Option("--output", metavar="FILE", help="File to write. Must not exist.", rich_help_panel=OUTPUT_PANEL),
    ],
    form: Annotated[
        CaptureFormat,
        typer.Option(
            "--as",
            metavar="FORM",
            help="captures, for AIPerf and training; prompts, for evaluate; or text, for Workload(prompts=).",
            rich_help_panel=OUTPUT_PANEL,
        ),
    ] = CaptureFormat.CAPTURES,
    sample: Annotated[
        float,
        typer.Option(min=0, max=100, metavar="PERCENT", help="Share to write. Each run selects the same captures."),
    ] = 100,
    redact: Annotated[
        bool,
        typer.Option("--redact", help="Replace email and IP addresses, long numbers, and secrets. Names stay."),
    ] = False,
    region: Region = None,
    profile: Profile = None,
    as_json: JsonOption = False,
) -> None:
    """Write an endpoint's captured traffic as a workload, prompts, or training data.

    Examples:
        constructs-optim captures s3://bucket/captures/chat/AllTraffic/2026/11/
          --output workload.jsonl --sample 10 --redact
    """
    if not sample:
        raise typer.BadParameter("--sample 0 writes nothing. Use more than 0, up to 100")
    account, counts = Account(profile, region), Written()
    with writing(file):
        # Prompts and answers are personal data, so only the user may read the file.
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with working(f"Reading {source}"), os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as output:
            files = files_of(source, lambda: account.client("s3"))
            for line in exported(files, form, counts, sample=sample / 100, redact=redact):
                output.write(f"{line}\n")
    except BaseException:
        file.unlink(missing_ok=True)
        raise
    if not counts.written:
        file.unlink()
        raise failed(f"No capture below {source} can be written as {form.value}: {_left_out(form)}.")
    if as_json:
        numbers = {"read": counts.read, "written": counts.written, "skipped": counts.unusable}
        left_out = {"without_limit": counts.unlimited, "without_tools": counts.formless}
        print_json({"file": str(file), **numbers, **left_out})
        return
    say(f"Wrote {counts.written} of {counts.read} captures to {file}.")
    if counts.unusable:
        say(f"Skipped {counts.unusable}: {_left_out(form)}.")
    if counts.unlimited:
        say(f"Left max_tokens out of {counts.unlimited}: it is not a whole number above 0.")
    if counts.formless:
        say(
            f"Left tools and the form of the answer out of {counts.formless}: the endpoint will answer these requests "
            "in another way. --as captures keeps them."
        )
    if not redact:
        say("The file is not redacted: it contains prompts and responses as users sent and received them.")
    say(_HINTS[form].format(file=file))


def _left_out(form: CaptureFormat) -> str:
    return {
        CaptureFormat.CAPTURES: "AIPerf and the EAGLE training job read JSON requests with messages, each with a role",
        CaptureFormat.PROMPTS: "they are not JSON objects with a prompt, inputs, or messages, each with a role",
        CaptureFormat.TEXT: "they are not JSON objects with text",
    }[form]
