from __future__ import annotations

import base64
import datetime as dt
import json
import random
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from PIL import Image

from constructs_optim.evaluator.load import MeasuredLevel, Segment
from constructs_optim.evaluator.options import ClosedLoop, Generation, Load, OpenLoop, Options, SideOptions
from constructs_optim.evaluator.report import PLOT_STYLE, REPORT, SUMMARY, Curve, Plot, draw_figure, write_report
from constructs_optim.evaluator.requests import ErrorKind
from constructs_optim.evaluator.run_directory import RunDirectory
from constructs_optim.evaluator.streaming import Record
from constructs_optim.evaluator.summary import summarize_level
from constructs_optim.recipe.evaluation.objectives import LatencyObjectives
from constructs_optim.recipe.evaluation.result import (
    EvaluationResult,
    Price,
    RateLimit,
    Subject,
    Workload,
)

from ..support.browser import browsed, needs_browser
from ..support.model_server import asked

ROOT = Path(__file__).parent.parent.parent
LOADS: tuple[Load, ...] = tuple(ClosedLoop(concurrency=users) for users in (1, 8, 64))
RATES: tuple[Load, ...] = tuple(OpenLoop(request_rate=rate) for rate in (1, 2, 4, 4.5))
STARTED = dt.datetime(2026, 11, 21, 14, tzinfo=dt.UTC)
PROMPTS = asked("What is speculative decoding?", "Why?", "<script>alert('prompt')</script>")
PLOTS = [
    "Time to first token",
    "Inter-token latency",
    "Client latency",
    "Throughput",
    "Requests",
    "Distribution of time to first token",
    "Distribution of inter-token latency",
    "Distribution of inter-chunk latency",
    "Time to first token over time",
    "Price",
    "Cost against latency",
]


@pytest.mark.parametrize("labels", [("p50", "p90"), tuple(f"meta-llama-3-70b-{n}: p{n}" for n in range(6))])
def test_a_legend_overlaps_no_curve_and_fits_in_the_figure(labels: tuple[str, ...]) -> None:
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    curves = [Curve(label, [1, 2], [place, place + 1], {}) for place, label in enumerate(labels)]
    with mpl.rc_context(fname=PLOT_STYLE):
        figure = draw_figure(Plot("Time to first token", "concurrency", "ms", curves))
        renderer = FigureCanvasAgg(figure).get_renderer()
        figure.draw(renderer)
        (legend,), (axes,) = figure.legends, figure.axes
        below = axes.get_tightbbox(renderer)
        box = legend.get_window_extent(renderer)
        assert below is not None
        assert box.y1 <= below.y0 + 1, "below the axes, with their labels"
        assert box.x0 >= 0
        assert box.x1 <= figure.bbox.width
        assert box.y0 >= 0


def options_of(loads: tuple[Load, ...] = LOADS, objectives: LatencyObjectives | None = None) -> Options:
    side = SideOptions(name="endpoint", url="http://127.0.0.1:1/v1")
    return Options(sides=(side,), started=STARTED, loads=loads, generation=Generation(), objectives=objectives)


def made(
    directory: RunDirectory,
    name: str,
    *,
    speed: float,
    price: Price | None = None,
    options: Options | None = None,
    lag: float = 0.0,
) -> tuple[str, EvaluationResult]:
    """A side with made-up requests that look like a model's: waiting grows with users."""
    chance = random.Random(name)
    levels = []
    options = options or options_of()
    for load in options.loads:
        measured = MeasuredLevel()
        users = load.concurrency if isinstance(load, ClosedLoop) else 8
        for number in range(max(32, 4 * users)):
            start = number // users * 9.0 / speed
            first = start + (0.18 + 0.004 * users) * chance.lognormvariate(0, 0.25) / speed
            tokens = chance.randrange(120, 250)
            last = first + tokens * 0.03 * (1 + users / 120) * chance.lognormvariate(0, 0.08) / speed
            prompt = number % len(PROMPTS)
            text = f"Answer {prompt} of <b>{name}</b>" if prompt == 2 else f"Answer {prompt}"
            record = Record(
                prompt=prompt,
                segment=0,
                start=start,
                end=last,
                first_token=first,
                last_token=last,
                input_tokens=600,
                output_tokens=tokens,
                text=text,
                gaps=[1000 * (last - first) / (tokens - 1)] * (tokens - 1),
            )
            if chance.random() < 0.004 * users / 8:
                record.error = ErrorKind.SERVER_ERROR
            measured.records.append(record)
        measured.segments.append(Segment(complete=True, lag_p99=1.0, lags=[lag] * 100))
        directory.rewrite(name, load, measured)
        levels.append(summarize_level(load, measured, price, options.objectives))
    result = EvaluationResult(
        subject=Subject(label=f"{name} <i>", endpoint_name="chat", instance_type="ml.g5.12xlarge", instance_count=1),
        workload=Workload(
            prompts=3,
            prompts_digest="61c6" * 16,
            tool="constructs-optim",
            parameters={"max_tokens": 256},
            command="constructs-optim evaluate chat --label '<b>'",
            tokens_counted_by="server",
        ),
        started=STARTED,
        levels=tuple(levels),
        price=price,
        objectives=options.objectives,
        notes=() if price else ("There are no prices: state one.",),
    )
    return name, result


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of two sides, with prices, differences and errors."""
    directory = RunDirectory(tmp_path_factory.mktemp("compared"))
    price = Price(instance_price_per_hour=7.09, source="AWS Price List, us-west-2")
    sides = [made(directory, "baseline", speed=1, price=price), made(directory, "optimized", speed=1.9, price=price)]
    write_report(directory, options_of(), dict(sides), PROMPTS)
    return directory.path


class Balanced(HTMLParser):
    """Fails where an element is not closed as it was opened."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_report_is_one_self_contained_page(compared: Path) -> None:
    page = (compared / REPORT).read_text(encoding="utf-8")
    parser = Balanced()
    parser.feed(page)
    assert parser.open == []
    assert "http://" not in page
    assert "https://" not in page
    assert "<script" not in page
    assert "&lt;script&gt;alert" in page.partition("<h2>Completions")[2]
    assert "<b>baseline</b>" not in page, "what models say is text"
    assert len(page) < 2_000_000


def test_the_same_measurements_yield_an_identical_report(compared: Path, tmp_path: Path) -> None:
    again = RunDirectory(tmp_path)
    price = Price(instance_price_per_hour=7.09, source="AWS Price List, us-west-2")
    sides = [made(again, "baseline", speed=1, price=price), made(again, "optimized", speed=1.9, price=price)]
    write_report(again, options_of(), dict(sides), PROMPTS)
    for name in (REPORT, SUMMARY, "levels.csv", "comparison.json", "baseline.json"):
        assert (tmp_path / name).read_bytes() == (compared / name).read_bytes()


@needs_browser
@pytest.mark.e2e
@pytest.mark.parametrize("width", [1240, 390])
def test_a_real_browser_shows_the_whole_report(compared: Path, width: int) -> None:
    picture = ROOT / "cdk.out" / f"evaluation-report-{width}.png"
    picture.parent.mkdir(exist_ok=True)
    found = browsed(Path(__file__).with_name("screenshot.mjs"), str(compared / REPORT), str(picture), str(width))
    assert found["title"] == "Evaluation of optimized <i> against baseline <i>"
    headings = ["Verdict", "Summary", "Differences", "Plots", "Completions", "Errors", "All metrics"]
    assert found["headings"][-1] == "Reproduce this evaluation"
    assert found["headings"][1:-1] == headings
    assert [shown["alt"] for shown in found["pictures"]] == PLOTS
    assert all(shown["width"] > 300 for shown in found["pictures"]), "each was drawn"
    assert found["wider"] <= 0, "nothing sticks out to the right"
    assert [url.rpartition("/")[2] for url in found["asked"]] == [REPORT]
    assert found["errors"] == []
    with Image.open(picture) as shown:
        assert shown.size[0] == width
        assert shown.size[1] > 2000
        assert len(shown.convert("RGB").getcolors(100_000) or range(100_001)) > 100


def test_a_report_without_prices_gives_the_reason(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    write_report(directory, options_of(), dict([made(directory, "endpoint", speed=1)]), PROMPTS)
    page = (tmp_path / REPORT).read_text(encoding="utf-8")
    assert "There are no prices: state one." in page
    assert 'alt="Price"' not in page
    assert 'alt="Time to first token"' in page
    assert "<h2>Completions" not in page
    assert not (tmp_path / "comparison.json").exists()


def test_the_summary_for_a_pull_request_is_markdown(compared: Path) -> None:
    text = (compared / SUMMARY).read_text(encoding="utf-8")
    assert text.startswith("### Evaluation of optimized \\<i\\> against baseline \\<i\\>\n")
    tables = [part.split("\n") for part in text.split("\n\n") if part.startswith("|")]
    assert len(tables) == 2
    for table in tables:
        assert len({row.replace("\\|", "").count("|") for row in table}) == 1, "as many cells in each row"
    first = [row.split(" | ")[0] for row in tables[0][2:4]]
    assert first == [f"| 1 user, {side} \\<i\\>" for side in ("baseline", "optimized")]
    assert "better" in text
    assert "    constructs-optim evaluate chat --label '<b>'" in text
    assert f"SHA-256 of the prompts {'61c6' * 16}" in text


def test_a_report_says_which_differences_the_lag_of_this_machine_may_explain(compared: Path, tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    sides = [made(directory, "baseline", speed=1, lag=130.0), made(directory, "optimized", speed=1.9, lag=130.0)]
    comparison = write_report(directory, options_of(), dict(sides), PROMPTS)
    assert comparison is not None
    assert 0 < comparison.too_busy <= comparison.verdicts["undecided"]
    of_them = f"{comparison.verdicts['undecided']} undecided, {comparison.too_busy} of them because this machine was"
    for name in (REPORT, SUMMARY):
        page = (tmp_path / name).read_text()
        assert of_them in page
        assert "undecided: this machine was too busy" in page
        assert "too busy," not in (compared / name).read_text()
    differences = json.loads((tmp_path / "comparison.json").read_text())["levels"][-1]["differences"]
    found = {each["name"]: each for each in differences}
    assert found["time_to_first_token_p50"]["too_busy"]
    assert (found["client_latency_p50"]["verdict"], found["client_latency_p50"]["too_busy"]) == ("better", False)


def test_a_report_shows_objectives_and_the_limit_in_plots_and_text(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    options = options_of(RATES, LatencyObjectives(time_to_first_token=300, inter_token_latency=40))
    name, result = made(directory, "endpoint", speed=1, options=options)
    result = result.model_copy(update={"limit": RateLimit(meets=4, misses=4.5)})
    write_report(directory, options, {name: result}, PROMPTS)
    told = (
        "endpoint <i>: 90% of the requests have first token within 300 ms, each further token within 40 ms up to 4 "
        "requests/s, and fewer at 4.5"
    )
    page = (tmp_path / REPORT).read_text(encoding="utf-8")
    assert told.replace("<", "&lt;").replace(">", "&gt;") in page
    pictures = re.findall(r'alt="([^"]+)" src="data:image/svg\+xml;base64,([^"]+)"', page)
    drawn = {title: base64.b64decode(content).decode() for title, content in pictures}
    objective = "stroke: #b7410e"
    assert objective in drawn["Time to first token"]
    assert objective not in drawn["Client latency"]
    assert "fill: #b7410e" in drawn["Time to first token"], "the limit, as a band"
    levels = json.loads((tmp_path / "endpoint.json").read_text())["levels"]
    assert [level["request_rate"] for level in levels] == [1, 2, 4, 4.5]
    low, high = levels[0]["intervals"]["time_to_first_token_p50"]
    assert low < levels[0]["metrics"]["time_to_first_token_p50"] < high
    assert 0 < levels[0]["metrics"]["goodput"] < levels[0]["metrics"]["requests_per_second"]


def test_a_report_without_the_plot_extra_names_the_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("constructs_optim.evaluator.report.HAS_PLOTS", False)
    directory = RunDirectory(tmp_path)
    write_report(directory, options_of(), dict([made(directory, "endpoint", speed=1)]), PROMPTS)
    page = (tmp_path / REPORT).read_text(encoding="utf-8")
    assert '<code>pip install "constructs-optim[plots]"</code>' in page
    assert "<img" not in page
    assert "<h2>Summary" in page
