"""Medusa heads on a fine-tuned model: two training jobs on Spot Instances, and an endpoint with a requirement."""

import os

import aws_cdk as cdk

from constructs_optim import FineTune, JobOptions, Medusa, Model, OptimizedEndpoint, TrainingCompute, Workload

app = cdk.App()
stack = cdk.Stack(
    app,
    "TextToSql",
    env=cdk.Environment(
        account=os.environ.get("CDK_DEFAULT_ACCOUNT", "111122223333"),
        region=os.environ.get("CDK_DEFAULT_REGION", "us-west-2"),
    ),
)

training = "s3://sql-of-mine/train/"
validation = "s3://sql-of-mine/validation/"
compute = TrainingCompute(instance_type="ml.g5.12xlarge", spot=True)

endpoint = OptimizedEndpoint(
    stack,
    "Sql",
    model=Model.jumpstart("huggingface-llm-mistral-7b", version="2.0.0"),
    techniques=[
        Medusa(
            heads=5,
            training_data=training,
            validation_data=validation,
            compute=compute,
            # The fine-tuned model is a separate artifact: training other heads does not repeat the fine-tuning.
            base=FineTune(training_data=training, validation_data=validation, compute=compute),
        )
    ],
    instance_type="ml.g5.4xlarge",
    jobs=JobOptions(max_runtime=cdk.Duration.hours(6)),
)
# Heads speed up single requests, so the evaluation measures one at a time.
endpoint.evaluate(workload=Workload(concurrency=[1])).require(max_regression=0.1)

cdk.CfnOutput(stack, "EndpointName", value=endpoint.endpoint_name)
app.synth()
