"""``constructs-optim replay``: the simulated cost of recorded traffic under one or more declarations."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

import typer

from constructs_optim.evaluator.plots import HAS_PLOTS, PLOT_STYLE
from constructs_optim.explanation.assembly import StackTemplate, is_chosen, read_assembly
from constructs_optim.explanation.endpoints import Endpoint
from constructs_optim.explanation.formatting import brief, counted
from constructs_optim.recipe.catalog.lock import LOCK_FILE, Lock
from constructs_optim.recipe.objectives import MOST_TOKENS, Objectives
from constructs_optim.replay.comparison import Range, Replayed, busiest, chart, replay, sentence
from constructs_optim.replay.declaration import Declared, ReplayError, declared
from constructs_optim.replay.traffic import Traffic, TrafficError, read_traffic
from constructs_optim.templates.resource_types import ENDPOINT
from constructs_optim.templates.template import Template

from .assemblies import StackOption
from .aws import DEFAULT_REGION, Account, Profile, Region, failed, region_without_calls
from .endpoint_file import assembly_of
from .installation import installing
from .output_files import writing
from .presentation import OUTPUT_PANEL, JsonOption, print_json, print_table, refusals_printed, say, working
from .prices import LISTED, PRICES_HELP, PRICES_METAVAR, stated_prices
from .recipes.evidence import listed_prices
from .recipes.lock import LockFileOption, read_lock
from .recipes.option_wording import OBJECTIVES, remedies_as_options
from .recipes.recommend import OfflineOption

_SIMULATION = "Simulation"
_COUNT = re.compile(r"[0-9]{1,6}")
_UNITS = ((86_400, "days"), (3600, "hours"), (60, "minutes"), (1, "seconds"))


def replay_command(
    traffic: Annotated[Path, typer.Option(metavar="FILE", help="Recorded traffic: captures, a trace, or CSV.")],
    assembly: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Directories that `cdk synth` wrote, or endpoint files. The others are compared with the first. "
            "Default: cdk.out."
        ),
    ] = None,
    stack: StackOption = None,
    endpoint: Annotated[
        list[str] | None, typer.Option(help="Only these endpoints, such as 'Chat/*'. Repeatable. Default: all.")
    ] = None,
    ttft: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="Maximum time to first token: 1s, 800ms. Default: that of the recorded choice.",
            rich_help_panel=_SIMULATION,
        ),
    ] = None,
    itl: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="Maximum inter-token latency: 40ms. Default: that of the recorded choice.",
            rich_help_panel=_SIMULATION,
        ),
    ] = None,
    input_tokens: Annotated[
        int | None,
        typer.Option(
            metavar="COUNT",
            min=1,
            max=MOST_TOKENS,
            help="Prompt tokens of requests for which the file has no number.",
            rich_help_panel=_SIMULATION,
        ),
    ] = None,
    output_tokens: Annotated[
        int | None,
        typer.Option(
            metavar="COUNT",
            min=1,
            max=MOST_TOKENS,
            help="Response tokens of requests for which the file has no number.",
            rich_help_panel=_SIMULATION,
        ),
    ] = None,
    available: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TYPE=COUNT",
            help="Instances of a type available to each endpoint. Repeatable. Default: unlimited.",
            rich_help_panel=_SIMULATION,
        ),
    ] = None,
    start_seconds: Annotated[
        int | None,
        typer.Option(
            metavar="SECONDS",
            min=0,
            max=86_400,
            help="Time until a new copy serves. Default: estimated from its weights.",
            rich_help_panel=_SIMULATION,
        ),
    ] = None,
    prices: Annotated[Path, typer.Option(metavar=PRICES_METAVAR, help=PRICES_HELP)] = Path(LISTED),
    offline: OfflineOption = False,
    file: LockFileOption = Path(LOCK_FILE),
    region: Region = None,
    profile: Profile = None,
    picture: Annotated[
        Path | None,
        typer.Option(
            "--chart",
            metavar="FILE",
            help="Draw capacity over time to a .svg or .png file.",
            rich_help_panel=OUTPUT_PANEL,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Simulate endpoints under recorded traffic: cost, latencies, and capacity.

    Latencies are forecast (https://constructs-optim.dev/forecast/). Ranges in brackets span the fast and the slow end
    of the forecast.

    Examples:
        constructs-optim replay --traffic week.csv
        constructs-optim replay main.out cdk.out --traffic week.csv
          --prices prices.json
    """
    assemblies = assembly or [Path("cdk.out")]
    if picture is not None:
        if not HAS_PLOTS:
            raise failed(f"Charts are an extra: {installing('plots')}")
        if picture.suffix not in (".svg", ".png") or not picture.absolute().parent.is_dir():
            raise typer.BadParameter(f"--chart {picture}: use a .svg or .png file in an existing directory")
    if len({*assemblies}) < len(assemblies):
        raise typer.BadParameter("an assembly is named twice")
    notes: list[str] = []
    recorded = _read(traffic, (input_tokens, output_tokens))
    with refusals_printed(as_json=as_json), remedies_as_options(OBJECTIVES, as_json=as_json):
        objectives = _objectives(ttft, itl, recorded)
    listed = _prices(prices, offline=offline, profile=profile, region=region, notes=notes)
    known, counts = read_lock(file), _counts(available or [])
    with refusals_printed(as_json=as_json), working("Reading the assembly"):
        templates = [(str(each), template) for each in assemblies for template in _stacks(each)]
    chosen = [(source, template) for source, template in templates if is_chosen(template, stack)]
    sides = [
        (source, each)
        for source, template in chosen
        for each in _of_stack(template, recorded, listed, known, notes, counts, start_seconds, endpoint)
    ]
    if not sides:
        where = f"No endpoint to simulate in {', '.join(map(str, assemblies))}."
        raise failed(" ".join([where, *_choices([each for _, each in templates], stack, endpoint), *notes]))
    if unused := counts.keys() - {pool.instance_type for _, each in sides for pool in each.pools}:
        reason = "no simulated endpoint uses it. The types of the pools before it also need a count"
        raise failed(" ".join([f"--available {', '.join(sorted(unused))}: {reason}.", *notes]))
    with working("Simulating"):
        replayed = replay(sides, recorded, objectives)
    notes += [note for each in replayed for note in each.notes]
    if recorded.left_out:
        notes.append(f"Excluded {counted(recorded.left_out, 'request')} whose tokens are unknown.")
    if as_json:
        print_json({"requests": len(recorded), "seconds": recorded.duration, "endpoints": replayed, "notes": notes})
    else:
        _print(replayed, recorded)
        for note in dict.fromkeys(notes):
            say(note)
    if picture is not None:
        with writing(picture, "--chart"):
            chart(replayed, picture, PLOT_STYLE)


def replayed_lines(
    path: Path,
    before: Sequence[StackTemplate],
    after: Sequence[StackTemplate],
    prices: Mapping[str, Mapping[str, float]],
) -> Iterator[str]:
    """Yield a line for each endpoint of both sides: the cost of a file's traffic after and before a change."""
    known, traffic, notes = read_lock(Path(LOCK_FILE)), _read(path, (None, None)), list[str]()
    sides = [
        (side, each)
        for side, stacks in (("before", before), ("after", after))
        for stack in stacks
        for each in _of_stack(stack, traffic, prices.get(stack.path, {}), known, notes)
    ]
    for old, new in _pairs(replay(sides, traffic)):
        yield f"With the traffic of {path}, {sentence(old, new)}."
    yield from notes


def _stacks(assembly: Path) -> list[StackTemplate]:
    with assembly_of(assembly) as folder:
        return read_assembly(folder)


def _choices(
    templates: Sequence[StackTemplate], stack: Sequence[str] | None, endpoint: Sequence[str] | None
) -> Iterator[str]:
    """Yield what --stack and --endpoint can choose, if they choose nothing."""
    stacks = dict.fromkeys(each.path for each in templates)
    chosen = [each for each in templates if is_chosen(each, stack)]
    endpoints = dict.fromkeys(
        f"{each.path}/{resource.label}" for each in chosen for resource in Template(each.template).of_type(ENDPOINT)
    )
    if stack and not chosen:
        yield f"--stack {' --stack '.join(stack)} chooses none of its stacks: {', '.join(stacks)}."
    elif endpoints and not any(_is_named(each, endpoint) for each in endpoints):
        yield f"--endpoint {' --endpoint '.join(endpoint or ())} chooses none of its endpoints: {', '.join(endpoints)}."


def _read(path: Path, lengths: tuple[int | None, int | None]) -> Traffic:
    try:
        return read_traffic(path, lengths)
    except TrafficError as error:
        raise failed(f"{error}.") from None


def _pairs(replayed: Sequence[Replayed]) -> Iterator[tuple[Replayed, Replayed]]:
    """Yield each endpoint of the first source with the endpoint of the same name in the others."""
    old = {each.name: each for each in replayed if each.source == replayed[0].source}
    yield from ((old[each.name], each) for each in replayed if each.source != replayed[0].source and each.name in old)


def _prices(
    prices: Path, *, offline: bool, profile: str | None, region: str | None, notes: list[str]
) -> Mapping[str, float]:
    if str(prices) != LISTED:
        return stated_prices(prices).hosting
    if offline:
        return listed_prices(None, region_without_calls(region), notes)
    account = Account(profile, region)
    return listed_prices(account, account.region or DEFAULT_REGION, notes)


def _of_stack(
    stack: StackTemplate,
    traffic: Traffic,
    prices: Mapping[str, float],
    known: Lock,
    notes: list[str],
    available: Mapping[str, int] | None = None,
    start_seconds: float | None = None,
    names: Sequence[str] | None = None,
) -> Iterator[Declared]:
    """Yield a stack's endpoints whose names match; add a note for each endpoint that cannot be simulated."""
    template = Template(stack.template)
    for resource in template.of_type(ENDPOINT):
        if not _is_named(f"{stack.path}/{resource.label}", names):
            continue
        endpoint = Endpoint(template, resource)
        try:
            yield declared(
                stack.path,
                endpoint,
                traffic,
                prices=prices,
                known=known,
                available=available,
                start_seconds=start_seconds,
            )
        except ReplayError as error:
            notes.append(f"{error}.")


def _is_named(endpoint: str, patterns: Sequence[str] | None) -> bool:
    return not patterns or any(fnmatchcase(endpoint, pattern) for pattern in patterns)


def _counts(texts: Sequence[str]) -> dict[str, int]:
    """Parse numbers of instances by type, such as ``ml.p5.48xlarge=2``."""
    counts: dict[str, int] = {}
    for text in texts:
        name, _, count = text.partition("=")
        if not name.startswith("ml.") or _COUNT.fullmatch(count) is None:
            raise typer.BadParameter(f"--available {text!r}: use TYPE=COUNT, such as ml.p5.48xlarge=2")
        counts[name] = int(count)
    return counts


def _objectives(ttft: str | None, itl: str | None, traffic: Traffic) -> Objectives | None:
    if ttft is None and itl is None:
        return None
    given, expected = traffic.lengths
    settings: dict[str, Any] = {"time_to_first_token": ttft, "inter_token_latency": itl}
    return Objectives(input_tokens=max(1, round(given)), output_tokens=max(1, round(expected)), **settings)


def _print(replayed: Sequence[Replayed], traffic: Traffic) -> None:
    mean, most = busiest(traffic)
    given, expected = traffic.lengths
    say(
        f"{counted(len(traffic), 'request')} in {_time(traffic.duration)}: {brief(mean)} per second, {brief(most)} in "
        f"the busiest hour, {given:.0f} input and {expected:.0f} output tokens on average"
    )
    rows = [
        ("Endpoint", [each.name for each in replayed]),
        ("Instances", [", ".join(each.instance_types) for each in replayed]),
        ("Instance-hours", [_shown(each.instance_hours, ",.1f") for each in replayed]),
        ("US dollars", [_shown(each.dollars, ",.2f") for each in replayed]),
        ("Copies", ["-".join(map(str, dict.fromkeys(each.copies))) for each in replayed]),
        ("Failed requests", [f"{each.failed:,}" for each in replayed]),
        ("TTFT mean (ms)", [_shown(each.time_to_first_token, ",.0f") for each in replayed]),
        ("TTFT p50 (ms)", [_shown(each.time_to_first_token_p50, ",.0f") for each in replayed]),
        ("TTFT p99 (ms)", [_shown(each.time_to_first_token_p99, ",.0f") for each in replayed]),
        ("ITL mean (ms)", [_shown(each.inter_token_latency, ".1f") for each in replayed]),
        ("ITL p50 (ms)", [_shown(each.inter_token_latency_p50, ".1f") for each in replayed]),
        ("TTFT missed", [_shown(each.missed_first, ".1%") for each in replayed]),
        ("ITL missed", [_shown(each.missed_between, ".1%") for each in replayed]),
        ("Queued requests", [_shown(each.waited, ".1%") for each in replayed]),
        ("Queue time (ms)", [_shown(each.wait, ",.0f") for each in replayed]),
    ]
    print_table(
        ["", *(each.source for each in replayed)],
        [[name, *cells] for name, cells in rows if any(cells)],
        long=max(1, len(replayed) - 1),
    )
    for before, after in _pairs(replayed):
        say(f"{after.source} compared with {before.source}: {sentence(before, after)}.")


def _time(seconds: float) -> str:
    """Return a duration in the largest unit in which it is at least two."""
    unit, name = next((each for each in _UNITS if seconds >= 2 * each[0]), _UNITS[-1])
    return f"{seconds / unit:,.1f} {name}".replace(".0 ", " ")


def _shown(figure: Range | None, form: str) -> str:
    if figure is None:
        return ""
    value, low, high = (format(each, form) for each in figure)
    return value if low == high else f"{value} ({low}-{high})"
