"""An endpoint in a larger stack: in an existing VPC, behind an API that requires IAM signatures.

API Gateway passes a request to a Lambda function, which invokes the endpoint. The function has only the permission
that `grant_invoke` adds; callers of the API need `execute-api:Invoke`.
"""

import os

from aws_cdk import App, CfnOutput, Duration, Environment, Stack
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from constructs_optim import Model, NetworkOptions, OptimizedEndpoint, Quantization

CONSUMER = """
import json, os
import boto3

runtime = boto3.client("sagemaker-runtime")


def handler(event, context):
    try:
        prompt = json.loads(event.get("body") or "{}")["prompt"]
    except (ValueError, KeyError):
        return {"statusCode": 400, "body": json.dumps({"error": 'send {"prompt": "..."}'})}
    answer = runtime.invoke_endpoint(
        EndpointName=os.environ["ENDPOINT_NAME"],
        ContentType="application/json",
        Body=json.dumps({"messages": [{"role": "user", "content": prompt}], "max_tokens": 256}),
    )
    return {"statusCode": 200, "body": answer["Body"].read().decode()}
"""


class Network(Stack):
    """The existing VPC of a platform team, with private subnets."""

    def __init__(self, scope: Construct, id: str, *, env: Environment) -> None:
        super().__init__(scope, id, env=env)
        self.vpc = ec2.Vpc(
            self,
            "Vpc",
            availability_zones=[f"{self.region}a", f"{self.region}b"],
            nat_gateways=0,
            subnet_configuration=[
                ec2.SubnetConfiguration(name="Models", subnet_type=ec2.SubnetType.PRIVATE_ISOLATED, cidr_mask=24)
            ],
        )
        # Jobs and models read and write the artifact store from these subnets.
        self.vpc.add_gateway_endpoint("S3", service=ec2.GatewayVpcEndpointAwsService.S3)


class Assistant(Stack):
    """The endpoint, and the function and API that invoke it."""

    def __init__(self, scope: Construct, id: str, *, vpc: ec2.IVpc, env: Environment) -> None:
        super().__init__(scope, id, env=env)
        endpoint = OptimizedEndpoint(
            self,
            "Chat",
            model=Model.jumpstart("meta-textgeneration-llama-3-70b-instruct", version="2.25.0", accept_eula=True),
            techniques=[Quantization.awq()],
            instance_type="ml.g5.12xlarge",
            network=NetworkOptions(
                vpc=vpc, vpc_subnets=ec2.SubnetSelection(subnet_type=ec2.SubnetType.PRIVATE_ISOLATED)
            ),
        )
        consumer = lambda_.Function(
            self,
            "Consumer",
            runtime=lambda_.Runtime.PYTHON_3_13,
            handler="index.handler",
            code=lambda_.Code.from_inline(CONSUMER),
            environment={"ENDPOINT_NAME": endpoint.endpoint_name},
            timeout=Duration.seconds(60),
        )
        endpoint.grant_invoke(consumer)
        api = apigateway.LambdaRestApi(
            self,
            "Api",
            handler=consumer,  # pyright: ignore[reportArgumentType] - the bindings name a parameter otherwise
            proxy=False,
            cloud_watch_role=False,
            default_method_options=apigateway.MethodOptions(authorization_type=apigateway.AuthorizationType.IAM),
        )
        api.root.add_resource("ask").add_method("POST")
        CfnOutput(self, "EndpointName", value=endpoint.endpoint_name)
        CfnOutput(self, "ConsumerName", value=consumer.function_name)


app = App()
here = Environment(
    account=os.environ.get("CDK_DEFAULT_ACCOUNT", "111122223333"),
    region=os.environ.get("CDK_DEFAULT_REGION", "us-west-2"),
)
network = Network(app, "Network", env=here)
Assistant(app, "Assistant", vpc=network.vpc, env=here)
app.synth()
