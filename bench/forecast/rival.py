"""Compare with AIConfigurator's forecasts of the same measurements, from its package in a separate environment.

    python bench/forecast/rival.py

Two contests: the held-out part of measurements.jsonl (fit.py), and measurements that AIConfigurator ships, to which the
forecast was never fitted. AIConfigurator tests its releases for regressions with the latter.
"""

from __future__ import annotations

import csv
import json
import random
import re
import statistics
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

PACKAGE = "aiconfigurator==0.12.0"
_SYSTEMS = {
    "p4de": "a100_sxm",
    "g6e": "l40s",
    "p5": "h100_sxm",
    "p5e": "h200_sxm",
    "p6-b200": "b200_sxm",
    "p6-b300": "b300_sxm",
    "g7e": "rtx_pro_6000_server",
}
_BACKENDS = {"vllm": "vllm", "sglang": "sglang", "tensorrt-llm": "trtllm"}
_QUANTIZED = {"fp8": "fp8", "nvfp4": "nvfp4", "int4": "int4_wo", "bf16": "bfloat16", "mxfp4": None}
_BATCHES = (64, 256, 1024)
_FURTHER = 300
"""The number of used measurements that AIConfigurator ships."""
_BLOCKED = 10.0
"""A longer time to first token, in seconds, is due to a queue (fit.py also excludes it)."""


def inside() -> None:
    """Forecast the points on standard input, as lines of JSON. Runs in AIConfigurator's environment."""
    from aiconfigurator.cli.api import cli_estimate  # pyright: ignore[reportMissingImports]

    out, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        point = json.loads(line)
        best: dict[str, float] | None = None
        reason = ""
        for batch in point.pop("batches"):
            try:
                found = cli_estimate(**point, batch_size=batch)
            except Exception as error:
                reason = f"{type(error).__name__}: {str(error)[:120]}"
                continue
            first, token = float(found.ttft) / 1000, float(found.tpot) / 1000
            rate = batch / (first + (point["osl"] - 1) * token)
            if best is None or rate > best["requests_per_second"]:
                best = {"time_to_first_token": first, "inter_token_latency": token, "requests_per_second": rate}
        print(json.dumps(best or {"refused": reason}), file=out, flush=True)


def main() -> int:
    """Run both contests and print them."""
    import fit
    from evaluation_clients import ENVIRONMENTS
    from measured import Measurement, measurements, split
    from rich.console import Console
    from rich.table import Table

    from constructs_optim.recipe.forecast import FIGURES

    home = ENVIRONMENTS / "aiconfigurator"
    if not (home / "bin" / "python").exists():
        subprocess.run(["uv", "venv", "--quiet", "--python", "3.11", str(home)], check=True)
        install = ["uv", "pip", "install", "--quiet", "--python", str(home / "bin" / "python"), PACKAGE]
        subprocess.run(install, check=True)
    fitted, tested = split(measurements())
    calibration = fit.with_errors(fit.Fit(fitted).calibrated(), fit.cross_validated(fitted))
    contests: dict[str, list[Measurement]] = {
        "held-out part": tested,
        "measurements that AIConfigurator ships": _shipped(home, {each.where for each in measurements()}),
    }
    table = Table(title=f"median errors of the forecast and of {PACKAGE}, for measurements that both can forecast")
    for heading in ("measurements", "figure", "points", "forecast", "AIConfigurator", "within interval"):
        table.add_column(heading)
    for name, points in contests.items():
        theirs = list(_asked(home, [_point(each) for each in points]))
        for figure in FIGURES:
            ours: list[float] = []
            others: list[float] = []
            covered: list[bool] = []
            for each, answer in zip(points, theirs, strict=True):
                value = each.observed.get(figure)
                if value is None or figure not in answer:
                    continue
                errors = calibration.errors[figure]
                mean, deviation = errors.of(each.group)
                forecast = each.forecast(each.efficiency(calibration))[figure]
                ours.append(abs(forecast * pow(2.718281828, mean) / value - 1))
                others.append(abs(answer[figure] / value - 1))
                covered.append(abs(fit.log_error(value, forecast) - mean) <= errors.quantile * deviation)
            medians = (f"{statistics.median(found):.1%}" if found else "" for found in (ours, others))
            table.add_row(name, figure, str(len(ours)), *medians, f"{sum(covered) / max(1, len(covered)):.1%}")
    Console().print(table)
    return 0


def _point(each: Any) -> dict[str, Any] | None:
    """Return cli_estimate's arguments for a measurement; None if AIConfigurator lacks data of its hardware."""
    from measured import HERE

    names = json.loads((HERE / "models.json").read_text(encoding="utf-8"))["hugging_face"].get(each.model)
    if names is None or each.family not in _SYSTEMS or each.engine not in _BACKENDS or each.load == "rate":
        return None
    quantized = _QUANTIZED.get(each.precision)
    if quantized == "fp8" and not each.model.startswith("llama"):
        # These models' makers publish FP8 in blocks.
        quantized = "fp8_block"
    modes = {} if quantized is None else {"gemm_quant_mode": quantized, "moe_quant_mode": quantized}
    parallel = each.tensor_parallel or 1
    data_parallel = each.accelerators if each.tensor_parallel is None and each.accelerators > 1 else 1
    return {
        "model_path": names[0],
        "system_name": _SYSTEMS[each.family],
        "backend_name": _BACKENDS[each.engine],
        # Use measured operators, and estimates for the others.
        "database_mode": "HYBRID",
        "mode": "static" if each.load == "batch" else "agg",
        "isl": round(each.input_tokens),
        "osl": max(2, round(each.output_tokens)),
        "tp_size": parallel,
        "pp_size": each.pipeline,
        "attention_dp_size": data_parallel,
        "moe_tp_size": parallel,
        "moe_ep_size": data_parallel,
        **modes,
        "batches": [max(1, round(each.at))] if each.at and each.load != "limit" else list(_BATCHES),
    }


def _asked(home: Path, points: Iterable[dict[str, Any] | None]) -> Iterable[Mapping[str, Any]]:
    listed = list(points)
    asked = "".join(json.dumps(point) + "\n" for point in listed if point is not None)
    command = [str(home / "bin" / "python"), __file__, "--inside"]
    done = subprocess.run(
        command, input=asked, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True
    )
    answers = iter(done.stdout.splitlines())
    return [json.loads(next(answers)) if point is not None else {} for point in listed]


def _shipped(home: Path, known: set[str]) -> list[Any]:
    """Return measurements of AIConfigurator's sample: of one server on one machine, and not in measurements.jsonl."""
    from measured import HERE, Measurement

    names = json.loads((HERE / "models.json").read_text(encoding="utf-8"))["hugging_face"]
    models = {name: model for model, each in names.items() for name in each}
    families = {system: family for family, system in _SYSTEMS.items()}
    engines = {backend: engine for engine, backend in _BACKENDS.items()}
    sample = next(home.glob("lib/python*/site-packages/aiconfigurator_core/systems/silicon_sample.csv"))
    ids = {found[1] for where in known if (found := re.search(r"id (\S+)", where)) is not None}
    points: list[Any] = []
    for row in csv.DictReader(sample.open(encoding="utf-8")):
        users = re.search(r"silicon_concurrency=(\d+)", row["silicon_data_source"])
        parallel, first = int(row["tp_size"] or 0), float(row["silicon_ttft_ms"] or 0) / 1000
        if row["mode"] != "agg" or row["id"] in ids or users is None or not 1 <= parallel <= 8 or first > _BLOCKED:
            continue
        if row["model_path"] not in models or row["system"] not in families or int(row["attention_dp_size"] or 1) > 1:
            continue
        precision = {"fp4": "nvfp4", "fp8": "fp8", "bf16": "bf16", "int4": "int4"}.get(row["precision"])
        if precision is None or "wip=True" in row["silicon_data_source"]:
            continue
        model = models[row["model_path"]]
        random_lengths = 0.9 if re.search(r"db-dump|source_file=20", row["silicon_data_source"]) else 1.0
        points.append(
            Measurement(
                model=model,
                family=families[row["system"]],
                accelerators=parallel,
                tensor_parallel=parallel,
                precision="mxfp4" if model.startswith("gpt-oss") else precision,
                engine=engines[row["backend"]],
                input_tokens=int(row["isl"]) * random_lengths,
                output_tokens=int(row["osl"]) * random_lengths,
                load="users",
                at=int(users[1]),
                time_to_first_token_ms=first * 1000,
                inter_token_latency_ms=float(row["silicon_tpot_ms"]),
                source="aiconfigurator-silicon",
                where=row["id"],
            )
        )
    return random.Random(20).sample(points, min(_FURTHER, len(points)))


if __name__ == "__main__":
    if "--inside" in sys.argv:
        inside()
        sys.exit(0)
    root = Path(__file__).resolve().parents[2]
    sys.path[:0] = [str(root), str(root / "bench")]
    sys.exit(main())
