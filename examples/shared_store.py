"""One artifact store for all teams of an organization: each artifact is built once and reused by every team.

A platform account owns the store. Teams of other accounts create artifacts there and reuse those of other teams: the
first deployment of a recipe runs the job, and the endpoints of all teams serve its artifact.

    cdk deploy Platform --app "python examples/shared_store.py" -c platform=... -c search=... -c support=...

Then run `cdk deploy Search` or `Support` with the credentials of each team's account, and also with `-c key_arn=...`,
the KeyArn output of the Platform stack. docs/sharing.md shows this on a local cloud.
"""

import os

from aws_cdk import App, CfnOutput, Environment, Stack
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from constructs_optim import ArtifactStore, Model, OptimizedEndpoint, Quantization

app = App()
region = os.environ.get("CDK_DEFAULT_REGION", "us-west-2")
platform_account: str = app.node.try_get_context("platform") or os.environ.get("CDK_DEFAULT_ACCOUNT", "111122223333")
search_account: str = app.node.try_get_context("search") or "444455556666"
support_account: str = app.node.try_get_context("support") or "777788889999"
STORE = f"artifacts-of-all-teams-{platform_account}-{region}"


class Platform(Stack):
    """The store, which the teams' accounts may read and write."""

    def __init__(self, scope: Construct, id: str, *, env: Environment) -> None:
        super().__init__(scope, id, env=env)
        key = kms.Key(self, "Key", enable_key_rotation=True, alias="artifacts-of-all-teams")
        store = ArtifactStore(
            self,
            "Artifacts",
            bucket_name=STORE,
            encryption_key=key,  # pyright: ignore[reportArgumentType] - the bindings name a parameter otherwise
        )
        for account in (search_account, support_account):
            store.share_with_account(account, read_only=False)
        self.key_arn = key.key_arn
        CfnOutput(self, "KeyArn", value=key.key_arn)


class Team(Stack):
    """A team's endpoint, with a recipe that other teams use as well."""

    def __init__(self, scope: Construct, id: str, *, key_arn: str, env: Environment) -> None:
        super().__init__(scope, id, env=env)
        store = ArtifactStore.from_bucket(
            s3.Bucket.from_bucket_name(self, "Store", STORE),
            encryption_key=kms.Key.from_key_arn(self, "Key", key_arn),
        )
        endpoint = OptimizedEndpoint(
            self,
            "Assistant",
            model=Model.jumpstart("meta-textgeneration-llama-3-70b-instruct", version="2.25.0", accept_eula=True),
            techniques=[Quantization.awq()],
            instance_type="ml.g5.12xlarge",
            artifact_store=store,
        )
        CfnOutput(self, "EndpointName", value=endpoint.endpoint_name)


platform = Platform(app, "Platform", env=Environment(account=platform_account, region=region))
# The key's ARN is the KeyArn output of the Platform stack: stacks of other accounts cannot import it.
shared_key: str = (
    app.node.try_get_context("key_arn")
    or f"arn:aws:kms:{region}:{platform_account}:key/0a1b2c3d-1111-2222-3333-444455556666"
)
Team(app, "Search", key_arn=shared_key, env=Environment(account=search_account, region=region))
Team(app, "Support", key_arn=shared_key, env=Environment(account=support_account, region=region))
app.synth()
