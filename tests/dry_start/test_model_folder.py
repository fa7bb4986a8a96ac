from __future__ import annotations

import json
from pathlib import Path

import pytest

from constructs_optim.dry_start.few_layers import with_few_layers
from constructs_optim.dry_start.machine import available_bytes, fitting
from constructs_optim.dry_start.model_folder import (
    configurations,
    copy_with,
    has_chat_template,
    is_quantized,
    unquantized,
    wanted,
)
from constructs_optim.dry_start.planned_engine import DryStartError

from .repositories import CONFIGURATIONS

GIGABYTE = 10**9


@pytest.mark.parametrize(
    ("name", "size", "is_read"),
    [
        ("config.json", 900, True),
        ("tokenizer.model", 500_000, True),
        ("chat_template.jinja", 10, True),
        ("1_Pooling/config.json", 190, True),
        ("model.safetensors", 900, False),
        ("model.safetensors.index.json", 900, False),
        ("modeling_own.py", 900, False),
        ("tokenizer.json", 64_000_001, False),
        ("../config.json", 900, False),
        ("/etc/config.json", 900, False),
        ("a\\..\\config.json", 900, False),
        ("a/b/config.json", 900, False),
    ],
)
def test_small_files_without_weights_are_read(name: str, size: int, is_read: bool) -> None:
    assert wanted(code=False)(name, size) is is_read


def test_code_is_read_only_on_request() -> None:
    assert wanted(code=True)("modeling_own.py", 900)


def test_a_repository_with_many_or_large_files_is_read_in_part() -> None:
    is_wanted = wanted(code=False)
    assert [is_wanted(f"{n}.json", 60_000_000) for n in range(5)] == [True, True, True, False, False]
    is_wanted = wanted(code=False)
    assert sum(is_wanted(f"{n}.json", 1) for n in range(1000)) == 200


def test_configurations_of_both_layouts_are_read(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"time_step_limit": [0.0, Infinity]}', encoding="utf-8")
    (tmp_path / "params.json").write_text('{"n_layers": 40}', encoding="utf-8")
    assert set(configurations(tmp_path)) == {"config.json", "params.json"}


@pytest.mark.parametrize(
    ("content", "reason"), [(b"{", "not JSON"), (b"[]", "no JSON object"), (None, "has no config")]
)
def test_a_model_without_a_readable_configuration_is_refused(
    tmp_path: Path, content: bytes | None, reason: str
) -> None:
    if content is not None:
        (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(DryStartError, match=reason):
        configurations(tmp_path)


def test_a_chat_template_is_a_file_or_a_setting_of_the_tokenizer(tmp_path: Path) -> None:
    assert not has_chat_template(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"chat_template": "{{ messages }}"}', encoding="utf-8")
    assert has_chat_template(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text("[", encoding="utf-8")
    assert not has_chat_template(tmp_path)
    (tmp_path / "chat_template.jinja").touch()
    assert has_chat_template(tmp_path)


def test_a_copy_without_quantization_has_no_trace_of_it(tmp_path: Path) -> None:
    config = {"num_hidden_layers": 4, "text_config": {"quantization_config": {"quant_method": "modelopt"}}}
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "hf_quant_config.json").write_text("{}", encoding="utf-8")
    few = with_few_layers(config)
    copy_with(folder, {"config.json": few}, tmp_path / "quantized")
    copy_with(folder, {"config.json": unquantized(few)}, tmp_path / "plain")
    assert is_quantized(config)
    assert (tmp_path / "quantized" / "hf_quant_config.json").exists()
    assert not (tmp_path / "plain" / "hf_quant_config.json").exists()
    assert not is_quantized(json.loads((tmp_path / "plain" / "config.json").read_text(encoding="utf-8")))


def test_the_degree_is_a_part_of_the_planned_one_that_memory_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    configs = {"config.json": CONFIGURATIONS["Qwen/Qwen3-8B"]}
    fits = {gigabytes: fitting(configs, 8, gigabytes * GIGABYTE) for gigabytes in (100, 25, 12, 4)}
    assert {size: fit.degree if fit is not None else None for size, fit in fits.items()} == {
        100: 8,
        25: 4,
        12: 1,
        4: None,
    }
    assert fits[25] is not None
    assert fits[25].changes(8) == ["2 of 36 layers", "tensor parallel degree 4 (planned: 8), for its memory and CPUs"]


def test_there_are_no_more_processes_than_cpus_but_two(monkeypatch: pytest.MonkeyPatch) -> None:
    configs = {"config.json": CONFIGURATIONS["Qwen/Qwen3-8B"]}
    for cpus, degree in ((1, 2), (4, 4), (64, 8)):
        monkeypatch.setattr("os.cpu_count", lambda cpus=cpus: cpus)
        fits = fitting(configs, 8, 200 * GIGABYTE)
        assert fits is not None
        assert fits.degree == degree


def test_experts_are_left_out_before_a_model_does_not_fit() -> None:
    fits = fitting({"config.json": CONFIGURATIONS["deepseek-ai/DeepSeek-R1"]}, 1, 24 * GIGABYTE)
    assert fits is not None
    assert "64 of 256 experts, for the memory of this machine" in fits.changes(1)


def test_this_machine_has_memory() -> None:
    assert available_bytes() > 0
