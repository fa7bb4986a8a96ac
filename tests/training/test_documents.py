"""JSON files of models and jobs: what no server reads is refused, with what was found and where."""

from __future__ import annotations

from pathlib import Path

import pytest

from constructs_optim.training.documents import json_object
from constructs_optim.training.errors import UnusableModel


def refused(path: Path, content: bytes) -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    with pytest.raises(UnusableModel) as error:
        json_object(path, UnusableModel)
    return str(error.value)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ('{"a": 1}'.encode("utf-16"), "is not JSON in UTF-8: 'utf-8' codec can't decode byte 0xff in position 0"),
        ('{"a": 1}'.encode("utf-16-le"), "it has a zero byte at line 1 column 2, as in UTF-16: save it as UTF-8"),
        ('\n{"a": 1}'.encode("utf-32-be"), "it has a zero byte at line 1 column 1"),
        (b'\xef\xbb\xbf{"a": 1}', "it begins with a byte order mark (EF BB BF): save it as UTF-8 without one"),
        (b'{"a": "\xff"}', "can't decode byte 0xff in position 7"),
        (
            b'{"a": "\\ud83d\\ude00 \\\\ud800",\n "b": "x\\udc00"}',
            r"its text has half a surrogate pair, \udc00, at line 2 column 9",
        ),
        (b'{"a": "\\ud83d\\ud83d\\ude00"}', r"half a surrogate pair, \ud83d, at line 1 column 8"),
        (b'{"\\uDFFF": 1}', r"half a surrogate pair, \uDFFF, at line 1 column 3"),
        (b'{"a": ' + b"[" * 100_000, "it has too many nested levels"),
        (b'{"a": 1,}', "line 1 column 9"),
        (b"", "Expecting value: line 1 column 1"),
        (b"[1]", "is not a JSON object but a list"),
        (b"null", "is not a JSON object but null"),
        (b"true", "is not a JSON object but true"),
        (b'"x"', "is not a JSON object but text"),
        (b"1.5", "is not a JSON object but a number"),
    ],
)
def test_a_file_that_servers_cannot_read_is_refused_with_what_was_found_and_where(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    said = refused(tmp_path / "llama" / "config.json", content)
    assert said.startswith("llama/config.json is not ")
    assert reason in said


def test_whole_surrogate_pairs_and_escaped_backslashes_are_text(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(rb'{"a": "\ud83d\ude00", "b": "\\ud800"}')
    assert json_object(path, UnusableModel) == {"a": "\N{GRINNING FACE}", "b": r"\ud800"}
