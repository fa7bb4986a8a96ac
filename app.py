from aws_cdk import App, Stack

from constructs_optim import Model, OptimizedEndpoint, Quantization

app = App()
endpoint = OptimizedEndpoint(
    Stack(app, "Chat"),
    "Gemma",
    model=Model.huggingface(
        "google/gemma-4-12B-it",
        revision="707f0a3b8a3c7ad586ed01e27eafbad8a27dd0f7",
    ),
    techniques=[Quantization.fp8_dynamic()],
    instance_type="ml.g6.2xlarge",
)
endpoint.auto_scale(max_capacity=4).on_concurrency(target=8)
app.synth()
