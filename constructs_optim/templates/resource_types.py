"""The CloudFormation types of endpoints and their related resources, and the keys of this library's metadata."""

from __future__ import annotations

ENDPOINT = "AWS::SageMaker::Endpoint"
INFERENCE_COMPONENT = "AWS::SageMaker::InferenceComponent"
SCALABLE_TARGET = "AWS::ApplicationAutoScaling::ScalableTarget"
SCALING_POLICY = "AWS::ApplicationAutoScaling::ScalingPolicy"
ALARM = "AWS::CloudWatch::Alarm"
COMPOSITE_ALARM = "AWS::CloudWatch::CompositeAlarm"
DASHBOARD = "AWS::CloudWatch::Dashboard"
NESTED_STACK = "AWS::CloudFormation::Stack"

OPTIMIZED_MODEL = "Custom::OptimizedModel"
OPTIMIZED_ENDPOINT_CONFIG = "Custom::OptimizedEndpointConfig"
OPTIMIZED_INFERENCE_COMPONENT = "Custom::OptimizedInferenceComponent"
OPTIMIZED_ARTIFACT = "Custom::OptimizedArtifact"
OPTIMIZATION_JOB = "Custom::OptimizationJob"
TRAINING_JOB = "Custom::TrainingJob"
ENDPOINT_EVALUATION = "Custom::EndpointEvaluation"
SERVED_CONFIGURATION = "Custom::ServedConfiguration"
VARIANT_SCALING = "Custom::VariantScaling"
COMPONENT_CAPACITY = "Custom::ComponentCapacity"
PREFLIGHT = "Custom::Preflight"
MODEL_RECOMMENDATION = "Custom::ModelRecommendation"
SHADOW_RUN = "Custom::ShadowRun"

MODELS = ("AWS::SageMaker::Model", OPTIMIZED_MODEL)
INFERENCE_COMPONENTS = (INFERENCE_COMPONENT, OPTIMIZED_INFERENCE_COMPONENT)
ENDPOINT_CONFIGS = ("AWS::SageMaker::EndpointConfig", OPTIMIZED_ENDPOINT_CONFIG)
JOBS = (OPTIMIZATION_JOB, TRAINING_JOB)
OWN_TYPES = (
    OPTIMIZED_MODEL,
    OPTIMIZED_ENDPOINT_CONFIG,
    OPTIMIZED_INFERENCE_COMPONENT,
    OPTIMIZED_ARTIFACT,
    *JOBS,
    ENDPOINT_EVALUATION,
    SERVED_CONFIGURATION,
    VARIANT_SCALING,
    COMPONENT_CAPACITY,
    PREFLIGHT,
    MODEL_RECOMMENDATION,
    SHADOW_RUN,
)
"""The custom resources of this library."""
WAITING = ("AWS::CloudFormation::WaitCondition", "AWS::CloudFormation::WaitConditionHandle")

METADATA_KEY = "constructs-optim"
"""The key of a resource's ``Metadata`` under which this library describes the resource's recipe and artifact."""
CHOICE_KEY = "constructs-optim:choice"
"""The key for the choice that meets an endpoint's objectives (``RecordedChoice``)."""
