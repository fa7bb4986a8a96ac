from __future__ import annotations

import pytest

from tooling.mutants import CHECKOUT, FOLDERS, Mutant, drawn, immaterial, report
from tooling.mutations import mutations


def edited(source: str) -> list[str]:
    """The mutated lines of a source, whose last line is mutated."""
    content = source.encode()
    return sorted(each.difference(content)[1] for each in mutations(content) if each.is_valid(content))


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a <= b\n", ["a > b"]),
        ("a not in b\n", ["a in b"]),
        ("(a) is (b)\n", ["(a) is not (b)"]),
        ("a and (b or c)\n", ["a and (b and c)", "a or (b or c)"]),
        ("not a\n", ["a"]),
        ("a + b // c\n", ["a + b / c", "a - b // c"]),
        ("a + [b]\n", ["a"]),
        ("{**a} | b\n", ["{**a}"]),
        ("x = 7\n", ["x = 15"]),
        ("x = True\n", ["x = False"]),
        ("x = 'ü', 'EndpointName'\n", ["x = 'ü', 'EndpointName_'", "x = 'ü_', 'EndpointName'"]),
        ("f(a, b=c)\n", ["f(a)", "pass"]),
        ("x = f(b=c, **d)\n", ["x = f(**d)", "x = f(b=c)"]),
        ("x = {'a': b}\n", ["x = {'a_': b}", "x = {}"]),
        ("x = a[b:c]\n", ["x = a[:c]", "x = a[b:]"]),
        ("x = [a for a in b if c]\n", ["x = [a for a in b if False]", "x = [a for a in b if True]"]),
        ("a.b = c\n", ["pass"]),
        ("a += b\n", ["pass"]),
        ("def f(a, b=1): ...\n", ["def f(a, b=3): ..."]),
        ("def f(): return a < b\n", ["def f(): return None", "def f(): return a >= b"]),
        ("if a: b()\n", ["if False: b()", "if True: b()", "if a: pass"]),
        ("if a: raise Error('Bad')\n", ["if False: raise Error('Bad')", "if True: raise Error('Bad')", "if a: pass"]),
        (
            "x: Annotated[str, Field(max_length=3)] = a\n",
            ["x: Annotated[str, Field()] = a", "x: Annotated[str, Field(max_length=7)] = a"],
        ),
    ],
)
def test_a_mutation_changes_a_part_of_a_line(source: str, expected: list[str]) -> None:
    assert edited(source) == sorted(expected)


@pytest.mark.parametrize(
    "source",
    [
        '"""Documentation."""\n',
        "x = 'text of a message'\n",
        "x = f'{a:5}'\n",
        "x = 'https://docs.aws.amazon.com'\n",
        "x = '\\0'\n",
        "log('done', count=1)\n",
        "annotations.add_warning_v2(a, b=c)\n",
        "assert a is not None\n",
        "x = zip(a, b, strict=True)\n",
        "x: Literal['a', 'b']\n",
        "Level = Literal['a', 'b']\n",
        "Value = A | B\n",
        "Check = Callable[['A'], 'B']\n",
        "T = TypeVar('T', bound=A)\n",
        "x = cast('A', b)\n",
        "@dataclass(frozen=True)\nclass A: ...\n",
        "x: A = field(repr=False)\n",
        "class A:\n    def __repr__(self): return a + b\n",
        "if TYPE_CHECKING:\n    x = 1\n",
    ],
)
def test_what_a_test_need_not_notice_is_not_mutated(source: str) -> None:
    assert edited(source) == []


def test_a_mutation_names_its_function_and_the_lines_of_its_statement() -> None:
    source = (
        b"class A:\n    x = 1\n    def f(self, y=2):\n        if (self.x\n            < 3):\n            return 4\n"
    )
    described = {(each.line, each.lines, each.function, each.runs_once) for each in mutations(source)}
    assert described == {
        (2, range(2, 3), "A", True),
        (3, range(3, 4), "A", True),
        (4, range(4, 6), "A.f", False),
        (5, range(4, 6), "A.f", False),
        (6, range(6, 7), "A.f", False),
    }


def test_what_a_cache_keeps_runs_once() -> None:
    assert all(each.runs_once for each in mutations(b"@functools.cache\ndef f():\n    x = 1\n"))


def test_a_seed_draws_the_same_mutants_each_time_on_different_lines() -> None:
    folder = f"{FOLDERS[2]}/hosting"
    mutants = drawn([folder], 20, seed=1)
    assert mutants == drawn([folder], 20, seed=1)
    assert mutants != drawn([folder], 20, seed=2)
    assert len({(each.path, each.mutation.line) for each in mutants}) == 20


def test_each_immaterial_mutant_is_one_of_the_library_and_has_a_reason() -> None:
    for key, reason in immaterial().items():
        source = (CHECKOUT / key[0]).read_bytes()
        assert key in {Mutant(key[0], source, each).key for each in mutations(source)}
        assert len(reason) > 20


@pytest.mark.parametrize(("living", "is_tolerated"), [(3, True), (4, False)])
def test_at_most_three_percent_of_the_material_mutants_may_live(
    living: int, *, is_tolerated: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    mutants = drawn([f"{FOLDERS[2]}/hosting"], 60, seed=1) + drawn([f"{FOLDERS[2]}/hosting"], 40, seed=2)
    found = [None if number < living else "tests/test_a.py::test_b" for number in range(100)]
    assert report(1, mutants, found) is is_tolerated
    printed = capsys.readouterr().out
    assert f"Seed 1: 100 mutants, 0 immaterial, {living} of 100 others live:" in printed
    # As binomtest(...).proportion_ci(method="wilson") of SciPy has it.
    interval = {3: "1.0% to 8.5%", 4: "1.6% to 9.8%"}[living]
    assert f"{living}.0% of the material mutants live (95% interval {interval}, Wilson)" in printed


def test_an_immaterial_mutant_does_not_count(capsys: pytest.CaptureFixture[str]) -> None:
    key = next(iter(immaterial()))
    source = (CHECKOUT / key[0]).read_bytes()
    (mutant,) = [each for each in (Mutant(key[0], source, each) for each in mutations(source)) if each.key == key]
    (other,) = drawn([f"{FOLDERS[2]}/hosting"], 1, seed=1)
    assert report(1, [mutant, other], [None, "tests/test_a.py::test_b"])
    assert "2 mutants, 1 immaterial, 0 of 1 others live" in capsys.readouterr().out
