"""Draw mutants of the library, run the tests that execute their lines, and print those that no test notices.

A mutant is the library with one small edit (``mutations.py``). Run it with ``make mutants``, or with another sample or
fewer folders: ``python -m tooling.mutants --seed 1 --count 200 constructs_optim/runtime``. Its exit status is 1 if more
than 3% of the material mutants live.

- The draw: lines by the seed, and on each line one of its mutations, so that a line with many does not count more.
- The tests: those that execute the line, by coverage.py's contexts, then the others of their files, which share
  fixtures and caches with them; first those whose names have words of the line's module and function, then snapshots,
  for a few minutes. A line that runs at import has those of the lines that name what it defines, then those of its
  module and of its folder.
- A test counts only if it passes without a mutation too. A mutant whose line no test executes lives.
- ``immaterial_mutants.toml`` lists the mutants that behave as the library does, each with the reason.

Libraries that make mutants, as of November 2026: mutmut 3 chooses tests by coverage, but wraps each function in a
trampoline, which changes what pydantic, decorators and jsii see, mutates no modules and classes, and draws no sample.
Cosmic Ray runs one command for all mutants. mutatest draws samples, but needs coverage.py 5 and has had no release
since 2022.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import datetime
import hashlib
import math
import os
import queue
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from statistics import NormalDist

import pytest
from coverage import CoverageData
from pydantic import BaseModel

from tooling.mutations import Mutation, mutations

CHECKOUT = Path(__file__).resolve().parent.parent
FOLDERS = ("constructs_optim/recipe", "constructs_optim/constructs", "constructs_optim/runtime")
TOLERATED = 0.03
_IMMATERIAL = Path(__file__).with_name("immaterial_mutants.toml")
_RECORDED = CHECKOUT / ".mutants"
_COVERAGE = _RECORDED / "coverage"
# The suites of make test and make cloud, and what make docs runs without the built site.
_IN_TEST = "not lint and not e2e and not engine and not exhaustive and not trains and not package"
_TESTS = (
    r"tests/(?!docs/test_(?:built_site|site_in_browser)|e2e/|faults/|package/|training/|constructs/test_example)"
    r".*/test_\w+\.py$"
)
_SOURCES = r"(constructs_optim|constructs_optim_local|tests)/(?!.*__snapshots__/).*\.(py|json|toml)$"
_PYTEST = (sys.executable, "-m", "pytest", "-p", "no:randomly", "-p", "no:cacheprovider", "--hypothesis-seed=0")
_TEST_SECONDS = 120
# Some tests depend on the machine.
_MOST_FAILING = 5
_SNAPSHOTS = re.compile(
    r"test_a_template_matches_its_snapshot|test_the_generated_pages_are_up_to_date|_schema_(is_that_of|matches_)"
    r"|/test_((judged|planned|recommended)_values|(document|request)_schemas|refusals|golden)\.py"
)
# So many of the first tests come before snapshots, which take longer.
_FIRST = 30
# What a run takes that its tests do not: imports, collection.
_START_SECONDS = 300
_SLOWER = 5
_MEMORY_BYTES = 6 * 2**30


@dataclass(frozen=True)
class Mutant:
    """A mutation of a file of the checkout, whose content is ``source``."""

    path: str
    source: bytes
    mutation: Mutation

    @cached_property
    def key(self) -> tuple[str, str, str, str]:
        """What identifies it when lines are added elsewhere: file, function, and the lines before and after."""
        return (self.path, self.mutation.function, *self.mutation.difference(self.source))

    def __str__(self) -> str:
        path, function, before, after = self.key
        return f"{path}:{self.mutation.line} {function}\n  - {before}\n  + {after}"


def drawn(folders: Sequence[str], count: int, seed: int) -> list[Mutant]:
    """Return ``count`` mutants on different lines of the Python files in the folders; fewer if there are no more."""
    lines: dict[tuple[str, int], list[Mutant]] = {}
    for path in sorted(path for folder in folders for path in (CHECKOUT / folder).rglob("*.py")):
        name, source = path.relative_to(CHECKOUT).as_posix(), path.read_bytes()
        for mutation in mutations(source):
            lines.setdefault((name, mutation.line), []).append(Mutant(name, source, mutation))
    chance = random.Random(seed)  # noqa: S311
    sample: list[Mutant] = []
    for line in chance.sample(sorted(lines), len(lines)):
        mutants = chance.sample(lines[line], len(lines[line]))
        sample += [each for each in mutants if each.mutation.is_valid(each.source)][:1]
        if len(sample) == count:
            break
    return sample


class Copy:
    """A copy of the checkout's files, in which a file can be mutated."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._changes = 0
        for name in _files():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes((CHECKOUT / name).read_bytes())
        for name in ("node_modules", ".venv"):
            (folder / name).symlink_to(CHECKOUT / name)

    @contextlib.contextmanager
    def mutated(self, mutant: Mutant) -> Iterator[None]:
        """Keep the mutant in place of the file."""
        self._write(mutant.path, mutant.mutation.of(mutant.source))
        try:
            yield
        finally:
            self._write(mutant.path, mutant.source)

    def _write(self, path: str, content: bytes) -> None:
        """Write a file; Python compiles it anew because of its time, which no earlier content had."""
        self._changes += 1
        (self._folder / path).write_bytes(content)
        os.utime(self._folder / path, (self._changes, self._changes))

    def run(self, *arguments: str, seconds: float | None = None, **environment: str) -> tuple[int | None, str]:
        """Run pytest with the arguments; return its exit status, None if it took longer, and what it printed."""
        (self._folder / ".arguments").write_text("".join(f"{each}\n" for each in arguments))
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        # Not a pipe, which a server that a test left behind would keep open.
        with (self._folder / ".printed").open("w+") as printed:
            process = subprocess.Popen(
                [*_PYTEST, "@.arguments"],
                cwd=self._folder,
                env={**kept, "PYTHONPATH": str(self._folder), **environment},
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                status = process.wait(seconds)
            except subprocess.TimeoutExpired:
                status = None
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            printed.seek(0)
            return status, printed.read()

    def failures(self, tests: Collection[str], *options: str, seconds: float | None = None) -> list[str]:
        """Run the tests; return those that fail, or another sign of a failure."""
        status, printed = self.run(*options, *tests, seconds=seconds)
        if status is None:
            return ["no end"]
        if absent := set(re.findall(r"^ERROR: not found: \S*?/(tests/.*)$", printed, re.MULTILINE)):
            # The mutation changed the names of some cases, which is no failure.
            remaining = [test for test in tests if test not in absent]
            return self.failures(remaining, *options, seconds=seconds) if 0 < len(remaining) < len(tests) else []
        if status in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            return []
        failed = re.findall(r"^(?:FAILED|ERROR) (tests/.*)$", printed, re.MULTILINE)
        named = [max((test for test in tests if line.startswith(test)), key=len, default=line) for line in failed]
        return named or ["no start"]


class Record(BaseModel):
    """Digests of what tests run, of each file of tests, and the seconds that each passed test takes."""

    sources: str = ""
    files: dict[str, str] = {}
    seconds: dict[str, float] = {}


class RecordedTests:
    """Which tests execute which lines, kept in ``.mutants``; ``copy`` runs what changed since it was recorded."""

    def __init__(self, copy: Copy) -> None:
        kept = _RECORDED / "record.json"
        earlier = Record.model_validate_json(kept.read_text()) if kept.exists() else Record()
        files = {name: _digest([name]) for name in _files() if re.match(_TESTS, name)}
        sources = _digest(name for name in _files() if re.match(_SOURCES, name) and name not in files)
        if earlier.sources != sources:
            earlier = Record()
        if changed := [name for name in files if earlier.files.get(name) != files[name]]:
            _RECORDED.mkdir(exist_ok=True)
            unfinished = _COVERAGE.with_suffix(".unfinished")
            unfinished.unlink(missing_ok=True)
            if earlier.files:
                shutil.copy(_COVERAGE, unfinished)
            _, printed = copy.run(
                *("-m", _IN_TEST, "--numprocesses=2", "--dist=loadfile"),
                *("--cov-context=test", "--cov-report=", *(f"--cov={folder}" for folder in FOLDERS)),
                "--cov-append",
                *("-vv", "--durations=0", "--durations-min=0", *changed),
                COVERAGE_FILE=str(unfinished),
            )
            if not unfinished.exists():
                sys.exit(f"no tests were recorded:\n{printed[-2_000:]}")
            unfinished.replace(_COVERAGE)
            failed = set(re.findall(r"^(?:FAILED|ERROR) (tests/.*?)(?: - .*)?$", printed, re.MULTILINE))
            sys.stdout.writelines(f"not used, because it fails: {each}\n" for each in sorted(failed))
            unchanged = files.keys() - set(changed)
            seconds = {test: value for test, value in earlier.seconds.items() if _file(test) in unchanged}
            for value, test in re.findall(r"^([\d.]+)s (?:setup|call) +(tests/.*)$", printed, re.MULTILINE):
                if test not in failed:
                    seconds[test] = seconds.get(test, 0) + float(value)
            # Those that fail are recorded again the next time.
            passing = {name: digest for name, digest in files.items() if name not in set(map(_file, failed))}
            earlier = Record(sources=sources, files=passing, seconds=seconds)
            kept.write_text(earlier.model_dump_json())
            if len(failed) > _MOST_FAILING:
                sys.exit(f"{len(failed)} tests fail without a mutation: mutants that only they notice would live")
        self._seconds = earlier.seconds
        self._data = CoverageData(str(_COVERAGE))
        self._data.read()
        self._sources = {
            name: (CHECKOUT / name).read_text().splitlines()
            for name in _files()
            if name.startswith(FOLDERS) and name.endswith(".py")
        }

    def executing(self, mutant: Mutant) -> list[str]:
        """Return the tests that may notice a mutant, those first that are most likely to."""
        mutation = mutant.mutation
        direct = set[str]() if mutation.runs_once else self._of_lines(mutant.path, mutation.lines)
        others = set[str]()
        if not direct:
            # It runs at import or for a cache: what counts is who uses it.
            for path, source in self._sources.items():
                naming = {line for line, text in enumerate(source, 1) if re.search(rf"\b{mutation.name}\b", text)}
                direct |= self._of_lines(path, naming.difference(mutation.lines if path == mutant.path else ()))
            folder = mutant.path.rpartition("/")[0]
            others = self._of_lines(mutant.path) or {
                test for path in self._sources if path.startswith(folder) for test in self._of_lines(path)
            }
        executing, of_file = Counter(map(_file, direct | others)), Counter(map(_file, self._seconds))
        words = _words(f"{mutant.path} {mutation.function} {mutation.name}")

        def rank(test: str) -> tuple[float, ...]:
            share = executing[_file(test)] / of_file[_file(test)]
            return (test not in direct, test not in others, -len(words & _words(test)), -share, self._seconds[test])

        # Tests of registries, of public names and of schemas execute no line of what they check.
        room = f"tests/{Path(mutant.path).parts[1]}/" if mutation.runs_once else None
        known = (
            test
            for test in self._seconds
            if _file(test) in executing or (room and (test.startswith(room) or _SNAPSHOTS.search(test)))
        )
        ranked = sorted(known, key=rank)
        ordered = ranked[:_FIRST] + sorted(ranked[_FIRST:], key=lambda test: _SNAPSHOTS.search(test) is None)
        total = accumulate(map(self.seconds_of, ordered))
        return [test for test, seconds in zip(ordered, total, strict=True) if seconds <= _TEST_SECONDS]

    def seconds_of(self, *tests: str) -> float:
        """Return how long the tests take."""
        return sum(self._seconds[test] for test in tests)

    def _of_lines(self, path: str, lines: Collection[int] | None = None) -> set[str]:
        """Return the tests that execute any of the lines of a file, by default any line at all."""
        if lines is not None and not lines:
            return set()
        by_line = self._data.contexts_by_lineno(path).items()
        contexts = {each for line, contexts in by_line if lines is None or line in lines for each in contexts}
        return {test for each in contexts if (test := each.rpartition("|")[0]) in self._seconds}


def _files() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=CHECKOUT, check=True, capture_output=True)  # noqa: S607
    return [name for name in listed.stdout.decode().split("\0") if (CHECKOUT / name).is_file()]


def _digest(names: Iterable[str]) -> str:
    return hashlib.sha256(b"\0".join(name.encode() + (CHECKOUT / name).read_bytes() for name in names)).hexdigest()


def _file(test: str) -> str:
    return test.partition("::")[0]


def _words(text: str) -> set[str]:
    return {word.rstrip("s") for word in re.findall(r"[a-z]+", text.lower())}


def noticed(mutant: Mutant, tests: Sequence[str], recorded: RecordedTests, copy: Copy) -> str | None:
    """Return the test that fails with the mutant, or another sign of it; None if all pass."""
    with copy.mutated(mutant):
        for start, end in ((0, _FIRST), (_FIRST, 150), (150, 600), (600, None)):
            some = tests[start:end]
            seconds = _START_SECONDS + _SLOWER * recorded.seconds_of(*some)
            if some and (failed := copy.failures(some, "--exitfirst", seconds=seconds)):
                return failed[0]
    return None


def judged(mutants: Sequence[Mutant], recorded: RecordedTests, copies: Sequence[Copy]) -> list[str | None]:
    """Return by which test each mutant is noticed, None if it lives. Tests that fail without it do not count."""
    free = queue.SimpleQueue[Copy]()
    for copy in copies:
        free.put(copy)

    def judge(mutant: Mutant, unreliable: Collection[str] = ()) -> str | None:
        copy = free.get()
        try:
            tests = [test for test in recorded.executing(mutant) if test not in unreliable]
            found = noticed(mutant, tests, recorded, copy)
        finally:
            free.put(copy)
        _say(f"{found or 'LIVES'}: {mutant}")
        return found

    with concurrent.futures.ThreadPoolExecutor(len(copies)) as threads:
        found = list(threads.map(judge, mutants))
        noticing = sorted({test for test in found if test and "::" in test})
        if unreliable := set(copies[0].failures(noticing)) if noticing else set[str]():
            _say(f"fail without a mutation: {', '.join(sorted(unreliable))}")
        doubtful = [index for index, test in enumerate(found) if test in unreliable]
        for index in doubtful:
            found[index] = judge(mutants[index], unreliable)
        return found


def immaterial() -> dict[tuple[str, str, str, str], str]:
    """Return the reasons why mutants are immaterial, by their keys."""
    rows = tomllib.loads(_IMMATERIAL.read_text()).get("mutant", [])
    return {(row["file"], row["function"], row["before"], row["after"]): row["reason"] for row in rows}


def report(seed: int, mutants: Sequence[Mutant], found: Sequence[str | None]) -> bool:
    """Print the living mutants and their share; return whether it is tolerated."""
    reasons = immaterial()
    living = [mutant for mutant, test in zip(mutants, found, strict=True) if test is None and mutant.key not in reasons]
    equivalent = sum(test is None and mutant.key in reasons for mutant, test in zip(mutants, found, strict=True))
    material = len(mutants) - equivalent
    _say(f"\nSeed {seed}: {len(mutants)} mutants, {equivalent} immaterial, {len(living)} of {material} others live:\n")
    for mutant in living:
        _say(f"{mutant}\n")
    share = len(living) / material
    low, high = _interval(share, material)
    _say(f"{share:.1%} of the material mutants live (95% interval {low:.1%} to {high:.1%}, Wilson)")
    return share <= TOLERATED


def _interval(share: float, count: int) -> tuple[float, float]:
    """Return a share's 95% interval (Wilson, Journal of the American Statistical Association 22 (1927), 209-212)."""
    square = NormalDist().inv_cdf(0.975) ** 2
    center = share + square / (2 * count)
    arm = math.sqrt(square * (share * (1 - share) / count + square / (4 * count**2)))
    return (center - arm) / (1 + square / count), (center + arm) / (1 + square / count)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    """Draw mutants, and judge them in two copies at a time."""
    parser = argparse.ArgumentParser(description="Draw mutants, and print those that no test notices.")
    parser.add_argument("folders", nargs="*", default=FOLDERS, help="default: %(default)s")
    parser.add_argument("--count", type=int, default=200, help="number of mutants (default: 200)")
    year, week, _ = datetime.datetime.now(datetime.UTC).isocalendar()
    parser.add_argument("--seed", type=int, default=year * 100 + week, help="default: the year and the week, as 202648")
    parser.add_argument("--list", action="store_true", help="print the mutants without running tests")
    given = parser.parse_args()
    mutants = drawn(given.folders, given.count, given.seed)
    if given.list:
        _say("\n".join(map(str, mutants)))
        return
    # Some mutants fill lists without end.
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY_BYTES, resource.RLIM_INFINITY))
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copies = [Copy(Path(folder, name)) for name in ("a", "b")]
        found = judged(mutants, RecordedTests(copies[0]), copies)
    sys.exit(not report(given.seed, mutants, found))


if __name__ == "__main__":
    main()
