"""The public names of constructs_optim, for type checkers and for ``__init__.py``, which imports them on first use."""

from .constructs.artifacts.artifact_store import (
    ArtifactStore as ArtifactStore,
    IArtifactStore as IArtifactStore,
)
from .constructs.artifacts.optimization_job import (
    JobOptions as JobOptions,
    OptimizationJob as OptimizationJob,
)
from .constructs.artifacts.optimized_artifact import OptimizedArtifact as OptimizedArtifact
from .constructs.artifacts.planned_recipe import Pool as Pool
from .constructs.endpoint.endpoint_base import IOptimizedEndpoint as IOptimizedEndpoint
from .constructs.endpoint.endpoint_monitoring import EndpointMonitoring as EndpointMonitoring
from .constructs.endpoint.inference_component import (
    InferenceComponent as InferenceComponent,
    LoraAdapter as LoraAdapter,
)
from .constructs.endpoint.optimized_endpoint import OptimizedEndpoint as OptimizedEndpoint
from .constructs.endpoint.options import (
    AsyncInference as AsyncInference,
    ComponentOptions as ComponentOptions,
    CoreDumps as CoreDumps,
    DataCapture as DataCapture,
    MonitoringOptions as MonitoringOptions,
    VariantOptions as VariantOptions,
)
from .constructs.endpoint.recommended_endpoint import RecommendedEndpoint as RecommendedEndpoint
from .constructs.endpoint.update_policy import UpdatePolicy as UpdatePolicy
from .constructs.evaluation.endpoint_evaluation import EndpointEvaluation as EndpointEvaluation
from .constructs.evaluation.shadow_run import (
    ShadowCandidate as ShadowCandidate,
    ShadowRun as ShadowRun,
)
from .constructs.monitoring.endpoint_dashboard import EvaluatedModel as EvaluatedModel
from .constructs.monitoring.endpoint_alarms import EndpointAlarms as EndpointAlarms
from .constructs.monitoring.endpoint_dashboard import EndpointDashboard as EndpointDashboard
from .constructs.monitoring.endpoint_metrics import PromqlMetric as PromqlMetric
from .constructs.monitoring.fleet_dashboard import (
    FleetDashboard as FleetDashboard,
    FleetEndpoint as FleetEndpoint,
)
from .constructs.monitoring.served_model import ServedModel as ServedModel
from .constructs.recommendation.model_recommendation import ModelRecommendation as ModelRecommendation
from .constructs.scaling.endpoint_scaling import EndpointScaling as EndpointScaling
from .constructs.stack.network import NetworkOptions as NetworkOptions
from .constructs.validation.policy_validation import PolicyValidation as PolicyValidation
from .policy import (
    PlatformPolicy as PlatformPolicy,
    PolicyError as PolicyError,
)
from .recipe import (
    Compilation as Compilation,
    FineTune as FineTune,
    KvCache as KvCache,
    Medusa as Medusa,
    Model as Model,
    Plan as Plan,
    PreOptimized as PreOptimized,
    Quantization as Quantization,
    RecipeError as RecipeError,
    Sharding as Sharding,
    SpeculativeDecoding as SpeculativeDecoding,
    TrainingCompute as TrainingCompute,
    Violation as Violation,
)
from .recipe.evaluation.recommendation import Recommendation as Recommendation
from .recipe.evaluation.requirements import QualityRequirement as QualityRequirement
from .recipe.evaluation.workload import Workload as Workload
from .recipe.objectives import Objectives as Objectives
from .recipe.hosting.alarms import (
    AlarmSettings as AlarmSettings,
    Alarms as Alarms,
)
from .recipe.hosting.options import (
    CapacityReservation as CapacityReservation,
    Observability as Observability,
    Placement as Placement,
    Routing as Routing,
    ScaleIn as ScaleIn,
)
from .recipe.hosting.shadow import AnswerCheck as AnswerCheck
from .recipe.hosting.scaling import ScalingStep as ScalingStep
from .recipe.hosting.speculation import SpeculationCure as SpeculationCure
from .recipe.servers import (
    Adapters as Adapters,
    Server as Server,
)

__all__: list[str]
