"""The construct for TypeScript as jsii gives it to other languages: Python stands for all of them.

The Java app is compiled and run where the variable JSII_CLASSPATH has the class path of aws-cdk-lib, constructs and
jsii-runtime, which is that of a Maven project that requires them. Without Maven, compile with ``javac -proc:none`` and
the jars of Jackson, javax.annotation-api and JetBrains' annotations (three minutes):

- the sources that ``jsii-pacmak --targets java --code-only`` writes in typescript/node_modules/{aws-cdk-lib,constructs}
  and @aws-cdk/*, with the resources beside them
- packages/@jsii/java-runtime of github.com/aws/jsii, whose generate.sh adds @jsii/runtime of npm
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.documents import CHECKOUT

TYPESCRIPT = CHECKOUT / "typescript"
NODE = os.environ.get("JSII_NODE") or str(Path(sys.executable).with_name("node"))
ENVIRONMENT = {
    **os.environ,
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    "JSII_NODE": NODE,
}
CLASSPATH = os.environ.get("JSII_CLASSPATH")
# jsii checks the types of all that crosses into the language, when it is read.
APP = """
from aws_cdk import App, Duration, Stack, Tags, assertions, aws_iam as iam, aws_s3 as s3
from constructs_optim_jsii import (
    Alarms, AlarmSettings, AwqQuantization, ComponentOptions, DataCapture, EndpointMetric, Model, ModelJumpstart,
    MonitoringOptions, OptimizedEndpoint, Quantization, Technique, UpdatePolicy, UpdatePolicyAllAtOnce,
)

MODEL = "meta-textgeneration-llama-2-70b"
stack = Stack(App(), "My")
endpoint = OptimizedEndpoint(
    stack,
    "Chat",
    model=Model(jumpstart=ModelJumpstart(model_id=MODEL, version="4.0.0", accept_eula=True)),
    techniques=[Technique(quantization=Quantization(awq=AwqQuantization()))],
    instance_type="ml.g5.12xlarge",
    inference_component=ComponentOptions(caching=True),
    data_capture=DataCapture(bucket=s3.Bucket(stack, "Captures")),
    monitoring=MonitoringOptions(alarms=Alarms(error_rate_enabled=False, queue=AlarmSettings(threshold=7))),
    update_policy=UpdatePolicy(all_at_once=UpdatePolicyAllAtOnce(bake_time=Duration.minutes(5))),
)
names = ("endpoint_name", "endpoint_arn", "inference_component_name", "open_ai_base_url", "artifact_store_bucket",
         "dashboard_name")
assert all(isinstance(getattr(endpoint, name), str) for name in names)
assert endpoint.endpoint_ref.endpoint_arn == endpoint.endpoint_arn
assert all(isinstance(alarm.alarm_arn, str) for alarm in endpoint.alarms)
assert endpoint.cfn_endpoint.ref and endpoint.cfn_dashboard.ref
assert [len(key) for key in endpoint.artifact_keys] == [64]
assert endpoint.metric(EndpointMetric.MODEL_LATENCY).metric_name == "ModelLatency"
assert endpoint.grant_invoke(iam.Role(stack, "Caller", assumed_by=iam.AccountRootPrincipal())).success
Tags.of(stack).add("team", "nlp")
resources = assertions.Template.from_stack(stack).to_json()["Resources"].values()
(job,) = (each["Properties"] for each in resources if each["Type"] == "Custom::OptimizationJob")
assert job["Tags"] == [{"Key": "team", "Value": "nlp"}]
print("read")
"""


# Around the statement in docs/typescript.md.
JAVA = """
import dev.constructs_optim.*;
import java.util.List;
import software.amazon.awscdk.App;
import software.amazon.awscdk.Stack;

public class Main {
    public static void main(String[] arguments) {
        App app = new App();
        Stack stack = new Stack(app, "Java");
        <statement>
        System.out.println(endpoint.getArtifactKeys().size() + " " + endpoint.metricInvocations().getMetricName());
        app.synth();
    }
}
"""

pytestmark = pytest.mark.package


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the package's sources for each language."""
    assert (TYPESCRIPT / "lib").exists(), "make typescript builds it"
    pacmak, folder = TYPESCRIPT / "node_modules" / ".bin" / "jsii-pacmak", tmp_path_factory.mktemp("sources")
    generate = [NODE, pacmak, "--targets", "python", "java", "dotnet", "go", "--code-only", "--outdir", folder]
    subprocess.run(generate, cwd=TYPESCRIPT, check=True, capture_output=True, timeout=300)
    return folder


def printed(folder: Path, *command: str | Path, **variables: str) -> str:
    environment = {**ENVIRONMENT, **variables}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def test_what_an_endpoint_has_is_read_in_another_language(sources: Path, tmp_path: Path) -> None:
    assert printed(tmp_path, sys.executable, "-c", APP, PYTHONPATH=str(sources / "python" / "src")) == "read"


def test_the_package_has_its_assembly_compressed() -> None:
    npm = Path(NODE).with_name("npm")
    (packed,) = json.loads(printed(TYPESCRIPT, npm, "pack", "--dry-run", "--json", "--ignore-scripts"))
    sizes = {each["path"]: each["size"] for each in packed["files"]}
    assert json.loads((TYPESCRIPT / ".jsii").read_bytes())["filename"] == ".jsii.gz"
    assert sizes[".jsii"] < 1000 < sizes[".jsii.gz"] < 200_000


def test_each_language_has_its_construct(sources: Path) -> None:
    assert {path.suffix for path in sources.rglob("OptimizedEndpoint.*")} == {".java", ".cs", ".go"}


@pytest.mark.skipif(CLASSPATH is None, reason="JSII_CLASSPATH does not have the CDK for Java")
@pytest.mark.skipif(shutil.which("javac") is None, reason="there is no javac on the PATH")
def test_the_java_app_of_the_docs_synthesizes(sources: Path, tmp_path: Path) -> None:
    statement = re.search(r"```java\n(.*?)```", (CHECKOUT / "docs" / "typescript.md").read_text(), re.DOTALL)
    assert statement is not None
    app = tmp_path / "Main.java"
    app.write_text(JAVA.replace("<statement>", statement[1]))
    main = sources / "java" / "src" / "main"
    classpath = os.pathsep.join([str(tmp_path), str(main / "resources"), CLASSPATH or ""])
    compiled = [app, *(main / "java").rglob("*.java")]
    printed(tmp_path, "javac", "-proc:none", "-nowarn", "-cp", classpath, "-d", tmp_path, *compiled)
    assert printed(tmp_path, "java", "-cp", classpath, "Main") == "1 Invocations"
