"""The lock file, and the images that plans take from it."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from typer.testing import CliRunner

from constructs_optim.cli.main import app
from constructs_optim.recipe import (
    KvCache,
    Model,
    Plan,
    Quantization,
    Recipe,
    RecipeError,
    SpeculativeDecoding,
    Technique,
    plan,
    planning,
)
from constructs_optim.recipe.catalog import images, models
from constructs_optim.recipe.catalog.lock import LOCK_FILE, SCHEMA_VERSION, Lock, RecordedArtifact, RecordedModel
from constructs_optim.recipe.rules import warnings
from constructs_optim.recipe.servers import Adapters, Server, ServerSettings, by_name
from constructs_optim.recipe.techniques.quantization import CompressorQuantization
from constructs_optim.training.settings import VERSION_HYPERPARAMETER
from tests.support.choices import CHOICE, NAME

CHECKOUT = Path(__file__).parent.parent.parent
JOB, OLDER_JOB = (image.name for image in images.making({"awq"})[:2])
NEWEST, OLDER = (image.name for image in images.serving({"awq"}, by_name())[:2])


def planned(
    region: str = "us-west-2",
    jobs: dict[str, str] | None = None,
    servers: dict[str, str] | None = None,
    server: ServerSettings | None = None,
) -> Plan:
    return plan(
        Recipe(
            model=Model.jumpstart("meta-textgeneration-llama-3-70b-instruct", version="2.25.0", accept_eula=True),
            techniques=[Quantization.awq()],
            instance_type="ml.g5.12xlarge",
            region=region,
            containers=Lock(jobs=jobs or {}, servers=servers or {}),
            server=server,
        )
    )


def images_of(planned: Plan) -> Lock:
    """What a plan records of images."""
    return Lock(jobs=planned.containers.jobs, servers=planned.containers.servers)


def newer_than(name: str) -> images.ImageRow:
    """The image of a later release."""
    row = next(row for row in images.rows() if row.name == name)
    return row.model_copy(update={"tag": "99.0.0-gpu-lmi99.0.0-cu999"})


@pytest.fixture
def newer_catalog(monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """A catalog that prefers images of a later release, for jobs and for models."""
    job, model, rows = newer_than(JOB), newer_than(NEWEST), images.rows()
    monkeypatch.setattr(images, "rows", lambda: (job, model, *rows))
    return job.name, model.name


def test_without_a_lock_entry_the_plan_records_the_catalogs_preferred_images() -> None:
    assert images_of(planned()) == Lock(jobs={"awq": JOB}, servers={"awq": NEWEST})


def test_a_locked_job_image_makes_the_artifact_and_changes_its_key() -> None:
    recorded = planned(jobs={"awq": OLDER_JOB})
    assert images_of(recorded) == Lock(jobs={"awq": OLDER_JOB}, servers={"awq": NEWEST})
    assert recorded.jobs[0].image == OLDER_JOB
    assert recorded.jobs[0].artifact_key != planned().jobs[0].artifact_key


def test_a_locked_server_image_serves_the_artifact_and_leaves_its_key() -> None:
    recorded = planned(servers={"awq": OLDER})
    assert images_of(recorded) == Lock(jobs={"awq": JOB}, servers={"awq": OLDER})
    assert recorded.container.image is not None
    assert recorded.container.image.endswith(OLDER)
    assert recorded.jobs == planned().jobs


def test_a_newer_catalog_does_not_change_a_plan_with_locked_containers(request: pytest.FixtureRequest) -> None:
    before = planned(jobs={"awq": JOB}, servers={"awq": NEWEST})
    job, model = request.getfixturevalue("newer_catalog")
    assert planned(jobs={"awq": JOB}, servers={"awq": NEWEST}) == before
    assert images_of(planned()) == Lock(jobs={"awq": job}, servers={"awq": model})
    # The owner of the app asks for the newer server: the artifact stays.
    updated = planned(jobs={"awq": JOB}, servers={"awq": model})
    assert updated.container.image != before.container.image
    assert updated.jobs == before.jobs


def test_the_image_that_a_beginning_of_a_version_names_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server.vllm(container_version="0.27")
    pinned = planned(servers={"awq": NEWEST, "vllm:awq": NEWEST}, server=server)
    ((name, image),) = pinned.containers.servers.items()
    assert (name, image.partition("-")[0]) == ("vllm:0.27:awq", "vllm:0.27.1")
    row = next(row for row in images.rows() if row.name == image)
    newer = row.model_copy(update={"tag": "0.27.2-gpu-py312-cu130-ubuntu22.04-sagemaker", "engine": "0.27.2"})
    rows = images.rows()
    monkeypatch.setattr(images, "rows", lambda: (newer, *rows))
    assert planned(servers=pinned.containers.servers, server=server).container == pinned.container
    assert planned(server=server).containers.servers == {name: newer.name}


def test_a_whole_tag_needs_no_lock_entry() -> None:
    tag = OLDER.partition(":")[2]
    pinned = planned(servers={"vllm:awq": NEWEST}, server=Server.vllm(container_version=tag))
    assert (pinned.container.image or "").endswith(OLDER)
    assert pinned.containers.servers == {}


def test_each_requested_server_has_an_entry_of_its_own() -> None:
    requested = planned(servers={"awq": NEWEST}, server=Server.lmi())
    ((name, image),) = requested.containers.servers.items()
    assert name == "lmi:awq"
    assert image.startswith("djl-inference:0.36.0-lmi28")


def test_a_region_that_lacks_the_locked_image_gets_its_own_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = {"missing_in": frozenset({"eu-west-3"})}
    changed = tuple(row.model_copy(update=missing) if row.name in (JOB, NEWEST) else row for row in images.rows())
    monkeypatch.setattr(images, "rows", lambda: changed)
    recorded: Any = {"jobs": {"awq": JOB}, "servers": {"awq": NEWEST}}
    regional = Lock(jobs={"awq@eu-west-3": OLDER_JOB}, servers={"awq@eu-west-3": OLDER})
    assert images_of(planned("eu-west-3", **recorded)) == regional
    both: Any = {part: {**recorded[part], **getattr(regional, part)} for part in recorded}
    assert images_of(planned("eu-west-3", **both)) == regional
    assert images_of(planned("us-west-2", **both)) == Lock(**recorded)


@pytest.mark.parametrize(("part", "preferred"), [("jobs", JOB), ("servers", NEWEST)])
def test_a_locked_image_without_the_required_capabilities_is_refused(part: str, preferred: str) -> None:
    recorded: Any = {part: {"awq": "djl-inference:0.38.0-lmi29.0.0-cu130"}}
    with pytest.raises(RecipeError) as refused:
        planned(**recorded)
    (violation,) = refused.value.violations
    assert (violation.rule, violation.location) == ("OPT035", f"{part}['awq']")
    assert LOCK_FILE in violation.suggestion
    assert preferred in violation.suggestion


@pytest.mark.parametrize(
    ("part", "name"), [("jobs", "djl-inference:0.32.0-lmi14.0.1-cu126"), ("servers", "vllm:0.19.0-gpu-py312-cu130")]
)
def test_a_locked_image_that_the_catalog_does_not_know_stays_and_nobody_vouches_for_it(part: str, name: str) -> None:
    recorded: Any = {part: {"awq": name}}
    kept = planned(**recorded)
    assert getattr(kept.containers, part) == {"awq": name}
    assert name in json.dumps(kept.model_dump(mode="json", include={"jobs", "container"}))
    (advice,) = [advice for advice in kept.warnings if advice.id == "constructs-optim:OPT039"]
    assert f"`constructs-optim lock --update {part}.awq`" in advice.message


def test_what_is_needed_of_an_unknown_image_follows_from_its_name() -> None:
    kept = planned(servers={"awq": "vllm:0.19.0-gpu-py312-cu130-ubuntu22.04-sagemaker"}).container
    assert (kept.server, kept.inference_ami_version) == ("vllm", planned().container.inference_ami_version)
    kept = planned(servers={"awq": "djl-inference:0.32.0-lmi14.0.1-cu126"}).container
    assert (kept.server, kept.inference_ami_version) == ("lmi", "al2-ami-sagemaker-inference-gpu-3-1")
    with pytest.raises(RecipeError, match="OPT035"):
        planned(servers={"awq": "acme/server:1"})


def test_images_of_the_last_release_that_had_them_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    before = planned()
    monkeypatch.setattr(images, "rows", tuple)
    recorded = {part: getattr(before.containers, part) for part in ("jobs", "servers")}
    kept = planned(**recorded)
    assert (kept.jobs, kept.container) == (before.jobs, before.container)


def test_a_job_on_blackwell_has_an_entry_beside_the_one_of_older_gpus() -> None:
    def recipe(instance_type: str, lock: Lock) -> Plan:
        model = Model.s3("s3://models/mine/")
        return plan(Recipe(model, [Quantization.awq()], instance_type, "us-west-2", containers=lock))

    older = recipe("ml.g5.12xlarge", Lock())
    newer = recipe("ml.g7e.12xlarge", older.containers)
    assert [*newer.containers.jobs] == ["blackwell:awq"]
    both = older.containers.adding(newer.containers)
    assert recipe("ml.g5.12xlarge", both).jobs == older.jobs
    assert recipe("ml.g7e.12xlarge", both).jobs == newer.jobs
    # Earlier releases had one name for both.
    image = newer.containers.jobs["blackwell:awq"]
    assert recipe("ml.g7e.12xlarge", Lock(jobs={"awq": image})).containers.jobs == {"blackwell:awq": image}


def test_a_lock_file_round_trips_through_write_and_read(tmp_path: Path) -> None:
    path = tmp_path / LOCK_FILE
    lock = (
        Lock()
        .adding(Lock(jobs={"b": "image:2", "a": "image:1"}))
        .adding(Lock(jobs={"a": "image:other"}, servers={"a": "image:3"}))
    )
    lock.write(path)
    assert Lock.read(path) == Lock(jobs={"a": "image:1", "b": "image:2"}, servers={"a": "image:3"})
    assert list(json.loads(path.read_text())["jobs"]) == ["a", "b"]
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_of_an_earlier_release_has_no_choices_and_gets_none(tmp_path: Path) -> None:
    path = tmp_path / LOCK_FILE
    path.write_text('{"version": 1, "jobs": {"awq": "image:1"}}')
    earlier = Lock.read(path)
    assert earlier.choices == {}
    earlier.write(path)
    assert json.loads(path.read_text()) == {"version": 1, "jobs": {"awq": "image:1"}}


def test_choices_are_entries_beside_the_others_and_survive_what_synthesis_adds(tmp_path: Path) -> None:
    lock = Lock(jobs={"awq": "image:1"}, choices={NAME: CHOICE})
    assert lock.entries() == {"jobs.awq": "image:1", f"choices.{NAME}": CHOICE}
    assert Lock.with_entries(lock.entries()) == lock
    added = lock.adding(Lock(servers={"awq": "image:2"}))
    assert added.choices == {NAME: CHOICE}
    added.write(tmp_path / LOCK_FILE)
    assert Lock.read(tmp_path / LOCK_FILE) == added
    other = CHOICE.model_copy(update={"copies": 4, "instances": 4})
    assert lock.adding(Lock(choices={NAME: other})).choices == {NAME: CHOICE}, "what is recorded stays"


def test_a_choice_changes_no_plan() -> None:
    model = Model.huggingface(CHOICE.model, revision="a" * 40)

    def recipe(lock: Lock) -> Plan:
        return plan(Recipe(model, [], "ml.p5.48xlarge", "us-west-2", containers=lock))

    assert recipe(Lock(choices={NAME: CHOICE})) == recipe(Lock())


MINE = Model.s3("s3://models/mine/")
KNOWN = RecordedModel(
    parameters_billion=32.8, layers=64, key_value_heads=8, head_dimension=128, max_position=131_072, stored_gb=65.5
)


def on_g6(*techniques: Technique, lock: Lock, **changed: Any) -> Plan:
    return plan(Recipe(MINE, techniques, "ml.g6.12xlarge", "us-west-2", containers=lock, **changed))


def length(planned: Plan) -> str | None:
    return planned.container.environment.get("SM_VLLM_MAX_MODEL_LEN")


def test_the_length_that_fits_is_recorded_and_stays_when_other_things_are_known_of_the_model() -> None:
    lock = Lock(models={MINE.uri: KNOWN})
    first = on_g6(lock=lock)
    assert length(first) == "40960"
    name = "s3://models/mine/@ml.g6.12xlarge"
    assert first.containers.contexts == {name: 40960}
    smaller = Lock(models={MINE.uri: KNOWN.model_copy(update={"layers": 32})})
    assert length(on_g6(lock=smaller)) != "40960"
    assert length(on_g6(lock=smaller.adding(first.containers))) == "40960"
    # As nothing was known of it.
    unknown = on_g6(lock=Lock())
    assert (length(unknown), unknown.containers.contexts) == (None, {name: 0})
    kept = on_g6(lock=lock.adding(unknown.containers))
    assert length(kept) is None
    (advice,) = [advice for advice in kept.warnings if advice.id == "constructs-optim:OPT053"]
    assert f"contexts.{name}" in advice.message


def test_a_recorded_length_is_of_one_recipe() -> None:
    lock = Lock(models={MINE.uri: KNOWN})
    recipes: list[dict[str, Any]] = [
        {},
        {"techniques": [KvCache.fp8()]},
        {"techniques": [Quantization.awq(tensor_parallel_degree=2)]},
        {"environment": {"SM_VLLM_KV_CACHE_DTYPE": "fp8"}},
        {"server": Server.vllm(adapters=Adapters(max_rank=16))},
    ]
    names = set[str]()
    for recipe in recipes:
        techniques = recipe.pop("techniques", [])
        made = on_g6(*techniques, lock=lock, **recipe)
        assert on_g6(*techniques, lock=lock.adding(made.containers), **recipe) == made
        names |= made.containers.contexts.keys()
    assert len(names) == len(recipes)
    (with_adapters,) = [name for name in names if "lora" in name]
    assert with_adapters.partition("+")[2] == "max_loras=4+max_lora_rank=16"
    for settings in ({"SM_VLLM_MAX_MODEL_LEN": "4096"}, {"SM_VLLM_GPU_MEMORY_UTILIZATION": "0.8"}):
        assert not on_g6(lock=lock, environment=settings).containers.contexts
    assert not on_g6(lock=lock, server=Server.vllm(context_length=4096)).containers.contexts


def test_a_raised_version_makes_another_artifact_only_where_none_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model.huggingface("acme/mine", revision="a" * 40)

    def keys(lock: Lock) -> list[str | None]:
        made = plan(Recipe(model, [Quantization.fp8_block()], "ml.p5.48xlarge", "us-west-2", containers=lock))
        return [job.artifact_key for job in made.jobs]

    recorded = plan(Recipe(model, [Quantization.fp8_block()], "ml.p5.48xlarge", "us-west-2")).containers
    assert {name: artifact.version for name, artifact in recorded.artifacts.items()} == {
        "acme/mine": 1,
        "acme/mine:fp8_block": 1,
    }
    before = keys(recorded)
    assert before == keys(Lock())
    monkeypatch.setattr(planning, "COPY_VERSION", 2)
    monkeypatch.setattr(CompressorQuantization, "code_version", 2)
    assert keys(recorded) == before
    assert not set(keys(Lock())) & set(before)


@pytest.mark.parametrize("version", [1, 2])
def test_a_job_that_makes_another_version_than_the_first_is_told_so(version: int) -> None:
    names = ("acme/mine", "acme/mine:fp8_block")
    lock = Lock(artifacts=dict.fromkeys(names, RecordedArtifact(version=version, storage_gb=100)))
    model = Model.huggingface("acme/mine", revision="a" * 40)
    made = plan(Recipe(model, [Quantization.fp8_block()], "ml.p5.48xlarge", "us-west-2", containers=lock))
    told = [job.request["HyperParameters"].get(VERSION_HYPERPARAMETER) for job in made.jobs]
    assert told == ([None, None] if version == 1 else ["2", "2"])


def test_a_model_that_an_app_has_is_not_refused_for_a_newer_least_release() -> None:
    model = Model.huggingface("Qwen/Qwen3-32B", revision="a" * 40)
    older = next(image.name for image in images.rows() if image.engine == "0.28.0")

    def recipe(lock: Lock) -> Plan:
        return plan(Recipe(model, [], "ml.p5.48xlarge", "us-west-2", containers=lock))

    before = recipe(Lock(servers={"serving": older}))
    assert (before.container.image or "").endswith(older)
    models.override("Qwen/Qwen3-32B", recipe=models.VllmRecipe(engine="0.30.0"))
    assert recipe(before.containers).container == before.container
    with pytest.raises(RecipeError, match="OPT035"):
        recipe(Lock(servers={"serving": older}))


def test_a_lock_file_that_is_no_text_or_no_file_is_named_in_the_error(tmp_path: Path) -> None:
    path = tmp_path / LOCK_FILE
    path.write_bytes(b"\xff\xfe{}")
    with pytest.raises(ValueError, match=r"optim\.lock\.json is not a lock file of this release"):
        Lock.read(path)
    with pytest.raises(ValueError, match=r"cannot be read as a lock file \(Is a directory\): restore it"):
        Lock.read(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        '{"jobs": {"awq": 1}}',
        '{"images": {}}',
        '{"choices": []}',
        '{"choices": {"chat": "ml.p5.48xlarge"}}',
        '{"choices": {"chat": {"model": "Qwen/Qwen3-32B"}}}',
    ],
)
def test_an_invalid_lock_file_raises_an_error_with_instructions(tmp_path: Path, content: str) -> None:
    path = tmp_path / LOCK_FILE
    path.write_text(content)
    with pytest.raises(ValueError, match=r"is not a lock file of this release.*restore it from version control"):
        Lock.read(path)


def test_the_lock_command_shows_and_updates_locked_containers(
    tmp_path: Path, newer_catalog: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    newer_job, newer_server = newer_catalog
    monkeypatch.chdir(tmp_path)
    Lock(jobs={"awq": JOB}, servers={"awq": OLDER, "lmi:fp8": "djl-inference:0.35.0-lmi17.0.0-cu128"}).write(
        Path(LOCK_FILE)
    )
    shown = CliRunner().invoke(app, ["lock"], env={"COLUMNS": "200"})
    assert OLDER in shown.stdout
    assert newer_server in shown.stdout
    assert newer_job in shown.stdout
    updated = CliRunner().invoke(app, ["lock", "--update", "servers.awq"], env={"COLUMNS": "200"})
    assert updated.stdout == f"servers.awq: {OLDER} -> {newer_server}\nUpdated 1 of 1 entries in {LOCK_FILE}.\n"
    lock = Lock.read(Path(LOCK_FILE))
    assert (lock.jobs["awq"], lock.servers["awq"]) == (JOB, newer_server)
    unknown = CliRunner().invoke(app, ["lock", "int4"])
    assert unknown.exit_code == 2
    assert "has no entry int4. Its entries: jobs.awq, servers.awq" in " ".join(unknown.stderr.replace("│", "").split())


def test_the_plan_command_uses_the_lock_file_of_the_app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Lock(servers={"awq": OLDER}).write(Path(LOCK_FILE))
    arguments = [
        "--model",
        "meta-textgeneration-llama-3-70b-instruct",
        "--accept-eula",
        "--technique",
        "quantization=awq",
    ]
    result = CliRunner().invoke(app, ["plan", *arguments, "--instance-type", "ml.g5.12xlarge", "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["container"]["image"].endswith(OLDER)


def test_the_lock_file_of_this_repository_matches_the_catalog(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(CHECKOUT)
    recorded = Lock.read(CHECKOUT / LOCK_FILE)
    assert recorded.jobs
    assert recorded.servers
    shown = CliRunner().invoke(app, ["lock"], env={"COLUMNS": "1000"})
    assert shown.exit_code == 0, shown.output
    for line in shown.stdout.splitlines()[1:]:
        if line.startswith("contexts."):
            # Only a synthesis tells what fits.
            continue
        entry, recorded_choice, preferred = re.split(r"\s{2,}", line.strip())
        assert recorded_choice == preferred, f"constructs-optim lock --update {entry}"


def tuned(tuning: dict[str, Any], techniques: tuple[Technique, ...] = ()) -> Plan:
    recorded = Lock.model_validate({"tuning": {f"Qwen/Qwen3-8B{name}": each for name, each in tuning.items()}})
    qwen = Model.huggingface("Qwen/Qwen3-8B", revision="0123456789abcdef0123456789abcdef01234567")
    return plan(Recipe(qwen, techniques, "ml.g6e.2xlarge", "us-west-2", containers=recorded))


def doubted(found: Plan) -> list[str]:
    return [advice.message for advice in found.warnings if advice.id == "constructs-optim:OPT256"]


@pytest.mark.parametrize(
    ("tuning", "setting"),
    [
        ({"environment": {"LD_PRELOAD": "/opt/ml/model/x.so"}}, "environment.LD_PRELOAD"),
        ({"environment": {"SM_VLLM_MODEL": "evil/model"}}, "environment.SM_VLLM_MODEL"),
        ({"environment": {"SM_VLLM_TRUST_REMOTE_CODE": "true"}}, "environment.SM_VLLM_TRUST_REMOTE_CODE"),
        ({"environment": {"HF_ENDPOINT": "https://example.com"}}, "environment.HF_ENDPOINT"),
        ({"arguments": {"trust_remote_code": True}}, "arguments.trust_remote_code"),
        ({"arguments": {"model": "evil/model"}}, "arguments.model"),
        ({"arguments": {"chat_template": "{{ x }}"}}, "arguments.chat_template"),
        ({"arguments": {"no_such_argument": 1}}, "arguments.no_such_argument"),
    ],
)
def test_recorded_tuning_that_no_recipe_has_gives_a_warning(tuning: dict[str, Any], setting: str) -> None:
    for name in ("@l40s", ""):
        (message,) = doubted(tuned({name: tuning}))
        assert f"tuning['Qwen/Qwen3-8B{name}'].{setting}" in message
        assert f"Remove it from {LOCK_FILE}" in message


def test_one_message_lists_all_doubtful_settings() -> None:
    tuning = {"environment": {"LD_PRELOAD": "x", "LD_AUDIT": "y"}, "arguments": {"model": "z", "max_num_seqs": 64}}
    assert len(doubted(tuned({"@l40s": tuning}))) == 3


@pytest.mark.parametrize(
    "tuning", [{}, {"arguments": {"max_num_seqs": 64}}, {"environment": {"VLLM_USE_DEEP_GEMM": "0"}}]
)
def test_recorded_tuning_of_recipes_gives_no_warning(tuning: dict[str, Any]) -> None:
    assert not doubted(tuned({"@l40s": tuning}))


def test_tuning_of_a_technique_has_its_number_of_proposed_tokens_alone() -> None:
    model = Model.huggingface("deepseek-ai/DeepSeek-V3.2", revision="0123456789abcdef0123456789abcdef01234567")
    heads = (SpeculativeDecoding.mtp(),)

    def told(**arguments: int) -> list[str]:
        recorded = Lock.model_validate({"tuning": {"deepseek-ai/DeepSeek-V3.2+mtp": {"arguments": arguments}}})
        found = Recipe(model, heads, "ml.p5en.48xlarge", "us-west-2", containers=recorded)
        return [each.message for each in warnings(found) if each.id == "constructs-optim:OPT256"]

    assert told(num_speculative_tokens=5) == []
    (message,) = told(num_speculative_tokens=5, max_num_seqs=64)
    assert "tuning['deepseek-ai/DeepSeek-V3.2+mtp'].arguments.max_num_seqs" in message


def test_what_a_plan_records_gives_no_warning() -> None:
    for model_id in sorted(models.of_hugging_face())[::40]:
        model = Model.huggingface(model_id, revision="0123456789abcdef0123456789abcdef01234567")
        recipe = Recipe(model, (), "ml.p5.48xlarge", "us-west-2")
        entry, recommended = recipe.recommended
        recorded = Recipe(model, (), "ml.p5.48xlarge", "us-west-2", containers=Lock(tuning={entry: recommended}))
        assert not [each for each in warnings(recorded) if each.id == "constructs-optim:OPT256"], model_id


@pytest.mark.parametrize(
    "content",
    [
        {"contexts": {"a": 10**21}},
        {"contexts": {"a": -1}},
        {"artifacts": {"a": {"version": 1, "storage_gb": 99_999_999_999}}},
        {"artifacts": {"a": {"version": 10**30, "storage_gb": 1}}},
        {"models": {"a": {"parameters_billion": 1e300}}},
        {"models": {"a": {"weight_bits": 0}}},
        {"models": {"a": {"cache_bytes": 10**400}}},
        {"models": {"a": {"layers": -3}}},
        {"servers": {"awq": "vllm:0.30.0\n@evil"}},
        {"servers": {"awq": "vllm"}},
        {"servers": {"awq": "vllm:"}},
        {"servers": {"awq": "Vllm:1"}},
        {"servers": {"awq": "vllm:1 --privileged"}},
        {"servers": {"awq": f"vllm:{'x' * 129}"}},
        {"servers": {"awq": "https://example.com/vllm:1"}},
        {"servers": {"awq": "vllm:1@sha256:" + "a" * 64}},
        {"jobs": {"awq": "../vllm:1"}},
        {"jobs": {"awq": ""}},
    ],
)
def test_a_lock_file_of_impossible_values_is_refused(content: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / LOCK_FILE).write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"is not a lock file of this release.*restore it from version control"):
        Lock.read(tmp_path / LOCK_FILE)


def test_every_cataloged_image_can_be_recorded() -> None:
    names = {row.name: row.name for row in images.rows()}
    assert Lock(jobs=names, servers=names).servers == names


def form_of(model: type[BaseModel]) -> dict[str, Any]:
    """The JSON schema of a model and of the models in it, without texts and the version."""

    def without_texts(value: Any) -> Any:
        if isinstance(value, dict):
            kept = {name: without_texts(each) for name, each in value.items() if name not in ("description", "title")}
            return {name: each for name, each in kept.items() if name != "version"}
        return [without_texts(each) for each in value] if isinstance(value, list) else value

    return without_texts(model.model_json_schema())


def test_a_change_of_the_lock_files_schema_needs_a_new_schema_version() -> None:
    digests = {1: "088a678a87ede2b8"}
    digest = hashlib.sha256(json.dumps(form_of(Lock), sort_keys=True).encode()).hexdigest()[:16]
    assert digests.get(SCHEMA_VERSION) == digest, (
        "the form of the lock file changed: raise SCHEMA_VERSION in recipe/catalog/lock.py, and add the digest "
        f"{digest} here. Before the first release, no file of the earlier form exists: replace the digest"
    )


def test_the_schema_of_the_lock_file_includes_the_schemas_of_its_entries() -> None:
    class Extended(RecordedModel, frozen=True):
        quantized: bool | None = None

    assert form_of(Extended) != form_of(RecordedModel)
    assert {"RecordedModel", "RecordedChoice", "RecordedArtifact", "Tuning"} <= form_of(Lock)["$defs"].keys()
