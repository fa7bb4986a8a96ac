// Generated from docs/endpoint.schema.json: python tooling/typescript_declaration.py

import {
  aws_cloudwatch, aws_ec2, aws_iam, aws_kms, aws_s3, aws_sns, Duration, RemovalPolicy, Size,
} from 'aws-cdk-lib';

/**
 * A SageMaker endpoint that serves a model after applying optimization techniques to it.
 */
export interface EndpointDeclaration {
  /**
   * The source of the weights.
   * @default - none, for an endpoint of inference components
   */
  readonly model?: Model;
  /**
   * The techniques to apply, in order.
   * @default - none
   */
  readonly techniques?: Technique[];
  /**
   * The endpoint's instance type, for instance `ml.g5.12xlarge`.
   * @default - none
   */
  readonly instanceType?: string;
  /**
   * Instead of `techniques` and `instanceType`, up to five instance types with the techniques for each, in order of preference. SageMaker launches instances of the first type that has capacity.
   * @default - none
   */
  readonly instancePools?: Pool[];
  /**
   * Instead of `techniques` and `instanceType`, the performance that the endpoint must reach. The lock file's choice for these objectives sets the recipe, the instance types, the number of instances, and the scaling target.
   * @default - none
   */
  readonly objectives?: Objectives;
  /**
   * The store of the artifacts; a read-only one requires `artifactKey`.
   * @default - a store of its own; `{ fromBucket: { bucket } }` shares one with other endpoints
   */
  readonly artifactStore?: ExistingStore;
  /**
   * The key of an existing artifact in `artifactStore`, 64 hexadecimal digits; may be a token. For a recipe with several jobs, it is the last job's key. No job runs, and the deployment fails if the store does not have the artifact.
   * @default - jobs create the artifacts that are missing from the store
   */
  readonly artifactKey?: string;
  /**
   * Additional environment variables of the model's container.
   * @default - none
   */
  readonly environment?: { [key: string]: string };
  /**
   * The model server and its settings.
   * @default - vLLM, unless a technique needs another server
   */
  readonly server?: Server;
  /**
   * Whether the model is served as an inference component. Such an endpoint accepts further components and scales by copies, also to zero; requests name the component. `ComponentOptions` mean yes, with these options.
   * @default - only if a technique requires it
   */
  readonly inferenceComponent?: ComponentOptions;
  /**
   * Instead of `inferenceComponent`: `true` for its defaults, `false` to omit it.
   * @default - `inferenceComponent`
   */
  readonly inferenceComponentEnabled?: boolean;
  /**
   * The production variant: its instances, time limits and routing.
   * @default - one instance
   */
  readonly variant?: VariantOptions;
  /**
   * The role and the maximum runtime of optimization and training jobs, and how long the deployment waits for them.
   * @default - none
   */
  readonly jobs?: JobOptions;
  /**
   * The alarms and their actions, additional metrics, and the instance price for the dashboard's costs.
   * @default - alarms without actions
   */
  readonly monitoring?: MonitoringOptions;
  /**
   * How a changed configuration reaches the endpoint, and what rolls the update back.
   * @default - all at once, keeping the old fleet for 10 minutes
   */
  readonly updatePolicy?: UpdatePolicy;
  /**
   * Asynchronous inference, which queues requests and writes responses to S3.
   * @default - synchronous inference
   */
  readonly asyncInference?: AsyncInference;
  /**
   * Capture of requests and responses to S3.
   * @default - no capture
   */
  readonly dataCapture?: DataCapture;
  /**
   * The endpoint's name.
   * @default - generated from the endpoint's path in the stack and the stack's name or, in a template for any number of stacks, its ID
   */
  readonly endpointName?: string;
  /**
   * The KMS key of the instances' volumes, for types without NVMe disks.
   * @default - SageMaker's
   */
  readonly encryptionKey?: aws_kms.IKey;
  /**
   * The VPC of jobs and models, and whether the model's container is isolated from the network.
   * @default - no VPC, and isolation if the techniques allow it
   */
  readonly network?: NetworkOptions;
  /**
   * The role that SageMaker assumes for the model, and for jobs without a role of their own.
   * @default - a role of its own, without write permissions
   */
  readonly role?: aws_iam.IRole;
  /**
   * Whether the endpoint, its configuration and its models are deleted with the stack.
   * @default - they are deleted
   */
  readonly removalPolicy?: RemovalPolicy;
  /**
   * Serve one more model on the endpoint's instances.
   * @default - none
   */
  readonly components?: { [key: string]: Component };
  /**
   * Let Application Auto Scaling choose the number of instances, or of an inference component's copies.
   * @default - none
   */
  readonly scaling?: Scaling;
  /**
   * Benchmark the endpoint after each deployment that changes it, on a schedule, or both.
   * @default - none
   */
  readonly evaluations?: { [key: string]: Evaluation };
  /**
   * Send copies of the requests to a candidate, and test whether it is worse than production.
   * @default - none
   */
  readonly shadow?: Shadow;
  /**
   * Additions to the endpoint's dashboard.
   * @default - none
   */
  readonly dashboard?: Dashboard;
  /**
   * Accept the findings of a rule in a construct and below it.
   * @default - none
   */
  readonly acknowledge?: Acknowledge[];
}

/**
 * A model to serve.
 */
export interface Model {
  /**
   * A Hugging Face model, which a job copies into the artifact store once.
   * @default - none
   */
  readonly huggingface?: ModelHuggingface;
  /**
   * A SageMaker JumpStart model, which the deployment looks up in the public hub.
   * @default - none
   */
  readonly jumpstart?: ModelJumpstart;
  /**
   * Uncompressed model files (Hugging Face layout) under an S3 prefix.
   * @default - none
   */
  readonly s3?: ModelS3;
}

/**
 * A technique, by its kind.
 */
export interface Technique {
  /**
   * A compilation of the model.
   * @default - none
   */
  readonly compilation?: Compilation;
  /**
   * A data type of the KV cache.
   * @default - none
   */
  readonly kvCache?: KvCache;
  /**
   * A quantization of the weights.
   * @default - none
   */
  readonly quantization?: Quantization;
  /**
   * A division of the weights into shards.
   * @default - none
   */
  readonly sharding?: Sharding;
  /**
   * Speculative decoding: a draft whose tokens the model verifies.
   * @default - none
   */
  readonly speculativeDecoding?: SpeculativeDecoding;
  /**
   * A configuration that JumpStart optimized, with its own image, environment and files. Needs no job.
   * @default - none
   */
  readonly preOptimized?: PreOptimized;
  /**
   * Medusa heads: fewer forward passes for the same output. For Llama and Mistral models at small batch sizes.
   * @default - none
   */
  readonly medusa?: Medusa;
  /**
   * Supervised fine-tuning of a Llama or Mistral model, on chats or instructions.
   * @default - none
   */
  readonly fineTune?: FineTune;
}

/**
 * One instance type of an endpoint, and the techniques that prepare the model for it.
 */
export interface Pool {
  /**
   * The instance type, for instance `ml.p5.48xlarge`.
   */
  readonly instanceType: string;
  /**
   * The techniques to apply for this type, in order.
   * @default - none, on an endpoint without a model
   */
  readonly techniques?: Technique[];
  /**
   * The key of an existing artifact, as for `OptimizedEndpoint`.
   * @default - jobs create the artifacts that are missing from the store
   */
  readonly artifactKey?: string;
  /**
   * Environment variables of the container on this type, which override the endpoint's.
   * @default - none
   */
  readonly environment?: { [key: string]: string };
  /**
   * The model server on this type.
   * @default - the endpoint's
   */
  readonly server?: Server;
}

/**
 * The requests that an endpoint serves, and the objectives that it must meet.
 */
export interface Objectives {
  /**
   * Mean number of tokens in a prompt; `constructs-optim captures` measures it on an endpoint.
   */
  readonly inputTokens: number;
  /**
   * Mean number of tokens in a response.
   */
  readonly outputTokens: number;
  /**
   * Requests per second at the busiest time, arriving at random.
   * @default - as many as one instance serves within the other objectives
   */
  readonly requestsPerSecond?: number;
  /**
   * The maximum mean time from a request to its first token.
   * @default - no limit
   */
  readonly timeToFirstToken?: Duration;
  /**
   * The maximum mean time between two tokens of a response.
   * @default - no limit
   */
  readonly interTokenLatency?: Duration;
  /**
   * The maximum price of all instances per hour, in US dollars.
   * @default - no limit
   */
  readonly maxPricePerHour?: number;
  /**
   * `lossless`, `near-lossless` (8 bits) or `any`.
   * @default - `near-lossless`
   */
  readonly quality?: ObjectivesQuality;
  /**
   * The probability with which a choice meets all objectives.
   * @default - 0.8
   */
  readonly confidence?: number;
}

/**
 * A store that exists.
 */
export interface ExistingStore {
  /**
   * Refer to a store in an existing bucket, of this app or another.
   * @default - none
   */
  readonly fromBucket?: ArtifactStoreFromBucket;
}

/**
 * The model server.
 */
export interface Server {
  /**
   * AWS's container for vLLM.
   * @default - none
   */
  readonly vllm?: VllmServer;
  /**
   * AWS's container for SGLang.
   * @default - none
   */
  readonly sglang?: SglangServer;
  /**
   * AWS's container for Large Model Inference: djl-serving with vLLM.
   * @default - none
   */
  readonly lmi?: LmiServer;
  /**
   * AWS's container for Text Generation Inference, which Medusa heads need. The project is in maintenance mode.
   * @default - none
   */
  readonly textGenerationInference?: TextGenerationInferenceServer;
}

/**
 * Resources of an inference component's copies besides accelerators, and their placement.
 */
export interface ComponentOptions {
  /**
   * VCPUs that a copy reserves, 0.25 or more.
   * @default - none
   */
  readonly cpuCores?: number;
  /**
   * The maximum host memory of a copy.
   * @default - SageMaker's limit
   */
  readonly maxMemory?: Size;
  /**
   * Whether instances cache the model's files and the container image, so that more copies start faster.
   * @default - SageMaker's default, which is yes for instance types with more than 232 GiB of NVMe disks
   */
  readonly caching?: boolean;
  /**
   * The instances that copies are placed on.
   * @default - SageMaker's default
   */
  readonly placement?: Placement;
  /**
   * The partition type that a copy occupies, one of the endpoint's `acceleratorPartitions`.
   * @default - the endpoint's only type; without partitions, a copy uses whole GPUs
   */
  readonly acceleratorPartition?: string;
}

/**
 * The endpoint's production variant, in the terms of SageMaker's `ProductionVariant`.
 */
export interface VariantOptions {
  /**
   * The variant's name.
   * @default - `AllTraffic`
   */
  readonly name?: string;
  /**
   * The initial number of instances.
   * @default - 1; with inference components, as many as their copies need
   */
  readonly initialInstanceCount?: number;
  /**
   * The minimum number of instances that SageMaker keeps for inference components.
   * @default - what the minimum number of copies needs
   */
  readonly minInstanceCount?: number;
  /**
   * The maximum number of instances for inference components.
   * @default - what their copies need, plus one for updates
   */
  readonly maxInstanceCount?: number;
  /**
   * The instances' machine image.
   * @default - SageMaker's choice
   */
  readonly inferenceAmiVersion?: string;
  /**
   * A reservation that the instances are launched into.
   * @default - none
   */
  readonly capacityReservation?: CapacityReservation;
  /**
   * How long loading the model may take, 1 minute to 1 hour.
   * @default - the timeout in the model's JumpStart document; for other models 1 hour, and 45 minutes for an inference component
   */
  readonly containerStartupTimeout?: Duration;
  /**
   * How long downloading the model may take, 1 minute to 1 hour.
   * @default - the same as for `containerStartupTimeout`
   */
  readonly modelDataDownloadTimeout?: Duration;
  /**
   * How long SageMaker tries to provision an instance, 5 minutes to 1 hour.
   * @default - SageMaker's default
   */
  readonly instanceProvisionTimeout?: Duration;
  /**
   * The size of each instance's volume, for types without NVMe disks.
   * @default - SageMaker's default
   */
  readonly volumeSize?: Size;
  /**
   * How requests are routed to instances.
   * @default - to the instance with the fewest outstanding requests
   */
  readonly routing?: Routing;
  /**
   * How SageMaker removes instances that inference components no longer need.
   * @default - SageMaker's default
   */
  readonly scaleIn?: ScaleIn;
  /**
   * Whether AWS Systems Manager sessions can be opened in the containers, which are then not isolated from the network. For tests only; AWS Support must enable it for the account.
   * @default - no
   */
  readonly ssmAccess?: boolean;
  /**
   * Where the core dump of a crashed container is stored.
   * @default - nowhere
   */
  readonly coreDumps?: CoreDumps;
  /**
   * The Multi-Instance GPU partitions of each GPU, for inference components that need less than a GPU, for instance `["mig-3g.40gb", "mig-3g.40gb"]`. SageMaker cannot change an endpoint's partitions, so changing this list replaces the endpoint.
   * @default - no partitions
   */
  readonly acceleratorPartitions?: string[];
  /**
   * The name of the configuration that an imported endpoint keeps (`constructs-optim adopt`). While it is set, deleting the stack retains the endpoint. When you remove it, the endpoint is updated to the configuration that this construct declares, according to its update policy.
   * @default - the declared configuration
   */
  readonly existingConfiguration?: string;
}

/**
 * How optimization and training jobs run.
 */
export interface JobOptions {
  /**
   * The role that SageMaker assumes for the jobs.
   * @default - a separate role for jobs that copy models with a token; for all other jobs, the construct's `role` or, without one, a role for all jobs of the endpoint
   */
  readonly role?: aws_iam.IRole;
  /**
   * How long a job may run.
   * @default - 5 days for EAGLE heads; 24 hours for fine-tuning, Medusa heads and quantization with llm-compressor; 10 hours for all other jobs
   */
  readonly maxRuntime?: Duration;
  /**
   * How long a job may wait for instances, 30 minutes to 28 days.
   * @default - SageMaker's limit
   */
  readonly maxPending?: Duration;
  /**
   * The training plan; jobs run only on its instances.
   * @default - on demand
   */
  readonly capacityReservation?: CapacityReservation;
  /**
   * How long the deployment waits for the artifact, at most 12 hours.
   * @default - 12 hours
   */
  readonly timeout?: Duration;
}

/**
 * The alarms and metrics of an endpoint, and the instance price for its dashboard.
 */
export interface MonitoringOptions {
  /**
   * The alarms and their settings. Those on errors, latency and lost capacity roll the endpoint's updates back.
   * @default - all alarms except the one on latency, which needs a threshold
   */
  readonly alarms?: Alarms;
  /**
   * Instead of `alarms`: a choice by its name.
   * @default - `alarms`
   */
  readonly alarmsPreset?: MonitoringOptionsAlarms;
  /**
   * At most 5 actions of alarms that go into ALARM.
   * @default - none
   */
  readonly alarmActions?: aws_sns.ITopic[];
  /**
   * At most 5 actions of alarms that return to OK.
   * @default - none
   */
  readonly okActions?: aws_sns.ITopic[];
  /**
   * Additional metrics.
   * @default - none
   */
  readonly observability?: Observability;
  /**
   * The price of one instance in US dollars an hour, for the dashboard's costs.
   * @default - no live costs, only the prices that evaluations published
   */
  readonly instancePricePerHour?: number;
  /**
   * The discount of a savings plan on that price, as a share.
   * @default - 0
   */
  readonly discount?: number;
  /**
   * The action when the acceptance of draft tokens decays; enables the alarm on it.
   * @default - none
   */
  readonly speculationCure?: SpeculationCure;
  /**
   * The page that alarms link to, with a section for each alarm.
   * @default - this library's https://constructs-optim.dev/alarms/
   */
  readonly runbook?: string;
}

/**
 * How an update moves the endpoint to new instances: all at once, as a canary, in linear steps, or rolling.
 */
export interface UpdatePolicy {
  /**
   * Create a second fleet of the same size, and shift all traffic once it is in service.
   * @default - none
   */
  readonly allAtOnce?: UpdatePolicyAllAtOnce;
  /**
   * Create a second fleet, and shift a part of the traffic first, then the rest.
   * @default - none
   */
  readonly canary?: UpdatePolicyCanary;
  /**
   * Create a second fleet, and shift the traffic in equal steps.
   * @default - none
   */
  readonly linear?: UpdatePolicyLinear;
  /**
   * Replace instances batch by batch, which needs the least additional capacity.
   * @default - none
   */
  readonly rolling?: UpdatePolicyRolling;
}

/**
 * A request queue with responses in S3. Clients invoke the endpoint with `InvokeEndpointAsync`.
 */
export interface AsyncInference {
  /**
   * The bucket for responses.
   */
  readonly bucket: aws_s3.IBucket;
  /**
   * The prefix of the responses' object keys; failures go to `<prefix>-failures`.
   * @default - `async`
   */
  readonly prefix?: string;
  /**
   * The bucket of the requests.
   * @default - `bucket`
   */
  readonly inputBucket?: aws_s3.IBucket;
  /**
   * The number of requests that an instance receives at once, 1 to 1,000.
   * @default - SageMaker's choice
   */
  readonly maxConcurrentInvocationsPerInstance?: number;
  /**
   * An SNS topic for a notification of each response.
   * @default - none
   */
  readonly successTopic?: aws_sns.ITopic;
  /**
   * An SNS topic for a notification of each failure.
   * @default - none
   */
  readonly errorTopic?: aws_sns.ITopic;
  /**
   * The topics whose messages include the response, `SUCCESS_NOTIFICATION_TOPIC` and `ERROR_NOTIFICATION_TOPIC`.
   * @default - none
   */
  readonly includeResponsesIn?: AsyncInferenceIncludeResponsesIn[];
  /**
   * The KMS key of the responses.
   * @default - the bucket's own encryption
   */
  readonly encryptionKey?: aws_kms.IKey;
}

/**
 * Capture of requests and responses to S3, for monitoring and evaluation.
 */
export interface DataCapture {
  /**
   * The bucket for the captures. They contain prompts and completions: encrypt the bucket, and restrict its readers.
   */
  readonly bucket: aws_s3.IBucket;
  /**
   * The prefix of the captures' object keys.
   * @default - `captures`
   */
  readonly prefix?: string;
  /**
   * The percentage of requests to capture, 0 to 100.
   * @default - 100
   */
  readonly samplingPercentage?: number;
  /**
   * Whether requests are captured.
   * @default - they are
   */
  readonly requests?: boolean;
  /**
   * Whether responses are captured.
   * @default - they are
   */
  readonly responses?: boolean;
  /**
   * The KMS key of the captured files.
   * @default - the bucket's own encryption
   */
  readonly encryptionKey?: aws_kms.IKey;
  /**
   * Content types that are stored as text; others are stored in base64.
   * @default - `application/json` and `application/jsonlines`
   */
  readonly jsonContentTypes?: string[];
}

/**
 * Network settings of jobs and models.
 */
export interface NetworkOptions {
  /**
   * The VPC of jobs and models.
   * @default - none
   */
  readonly vpc?: aws_ec2.IVpc;
  /**
   * The security groups of jobs and models.
   * @default - a new one without ingress
   */
  readonly securityGroups?: aws_ec2.ISecurityGroup[];
  /**
   * Whether the model's container is isolated from the network; only for an endpoint.
   * @default - if the techniques allow it
   */
  readonly isolation?: boolean;
}

/**
 * Serve one more model on the endpoint's instances.
 */
export interface Component {
  /**
   * The source of the weights.
   */
  readonly model: Model;
  /**
   * The techniques to apply, in order, for the endpoint's instance type.
   * @default - none
   */
  readonly techniques?: Technique[];
  /**
   * On an endpoint with pools, the techniques for each of its types, instead of `techniques`.
   * @default - none
   */
  readonly instancePools?: Pool[];
  /**
   * The number of accelerators (NeuronCores on Inferentia and Trainium) of each copy.
   * @default - the plan's tensor parallel degree
   */
  readonly accelerators?: number;
  /**
   * The model server and its settings.
   * @default - vLLM, unless a technique needs another server
   */
  readonly server?: Server;
  /**
   * The key of an existing artifact, as for the endpoint.
   * @default - none
   */
  readonly artifactKey?: string;
  /**
   * The initial number of copies.
   * @default - 1
   */
  readonly copies?: number;
  /**
   * Additional environment variables of the model's container.
   * @default - none
   */
  readonly environment?: { [key: string]: string };
  /**
   * Host memory of each copy.
   * @default - half of the instance's memory, in proportion to its accelerators
   */
  readonly memory?: Size;
  /**
   * Other resources of a copy, and the placement of copies.
   * @default - SageMaker's defaults
   */
  readonly options?: ComponentOptions;
  /**
   * The component's name, in lower case.
   * @default - generated from its path in the app
   */
  readonly componentName?: string;
  /**
   * The name of the SageMaker model that an imported component keeps (`constructs-optim adopt`). The component switches to `model` when you remove this argument.
   * @default - `model`
   */
  readonly existingModel?: string;
  /**
   * Serve a LoRA adapter of this model. Requests name the adapter instead of the component.
   * @default - none
   */
  readonly adapters?: { [key: string]: Adapter };
  /**
   * Let Application Auto Scaling choose the number of instances, or of an inference component's copies.
   * @default - none
   */
  readonly scaling?: Scaling;
  /**
   * Benchmark the endpoint after each deployment that changes it, on a schedule, or both.
   * @default - none
   */
  readonly evaluations?: { [key: string]: Evaluation };
}

/**
 * Let Application Auto Scaling choose the number of instances, or of an inference component's copies.
 */
export interface Scaling {
  /**
   * The maximum number of instances or copies.
   * @default - the capacity for the requests of the endpoint's objectives; required without objectives
   */
  readonly maxCapacity?: number;
  /**
   * The minimum number. For copies it may be 0: the last copy is removed when there are no requests, and the next request starts one. A variant keeps at least one instance.
   * @default - 1
   */
  readonly minCapacity?: number;
  /**
   * Keep the concurrent requests of each instance or copy near `target`.
   * @default - none
   */
  readonly onConcurrency?: OnConcurrency;
  /**
   * Keep the invocations a minute of each instance or copy near `target`.
   * @default - none
   */
  readonly onInvocations?: OnInvocations;
  /**
   * Keep an asynchronous endpoint's waiting requests for each instance near `target`.
   * @default - none
   */
  readonly onBacklog?: OnBacklog;
  /**
   * Scale on the time to first token.
   * @default - none
   */
  readonly onTimeToFirstToken?: OnTimeToFirstToken;
  /**
   * Keep the KV cache utilization, averaged over the copies, below `target`.
   * @default - none
   */
  readonly onKvCache?: OnKvCache;
  /**
   * Scale out while more than `target` requests for each instance or copy wait in the engine.
   * @default - none
   */
  readonly onQueue?: OnQueue;
  /**
   * Keep the generated tokens a second of each instance or copy below `target`.
   * @default - none
   */
  readonly onTokensPerSecond?: OnTokensPerSecond;
  /**
   * Keep any metric, or metric math, near `target`.
   * @default - none
   */
  readonly onMetric?: { [key: string]: OnMetric };
  /**
   * Add or remove capacity in steps by the value of a metric, each direction with its own alarm and policy.
   * @default - none
   */
  readonly onSteps?: { [key: string]: OnSteps };
  /**
   * Change the range on a schedule. Policies continue within the new range.
   * @default - none
   */
  readonly onSchedule?: { [key: string]: OnSchedule };
  /**
   * Stop the endpoint on a schedule: it has no copies, and requests start none. Endpoint and artifact remain.
   * @default - none
   */
  readonly stopOn?: StopOn;
  /**
   * Start the endpoint on a schedule, after `stopOn`.
   * @default - none
   */
  readonly startOn?: StartOn;
}

/**
 * Benchmark the endpoint after each deployment that changes it, on a schedule, or both.
 */
export interface Evaluation {
  /**
   * The load to send.
   * @default - synthetic prompts of 622 tokens, from 1, 8 and 32 users; for an endpoint with objectives, prompts of their lengths, from one user and from the expected number of users
   */
  readonly workload?: Workload;
  /**
   * Whether a deployment that changes what the endpoint serves runs the evaluation.
   * @default - yes
   */
  readonly afterDeployment?: boolean;
  /**
   * An additional schedule: `rate(1 day)`, or `cron(0 6 ? * MON-FRI *)` in UTC.
   * @default - none
   */
  readonly schedule?: string;
  /**
   * An evaluation that the dashboard shows for comparison, for instance of the same model without techniques.
   * @default - none
   */
  readonly baseline?: EvaluatedModel;
  /**
   * The price of an instance in US dollars.
   * @default - the endpoint's price, otherwise the price in the AWS Price List at run time
   */
  readonly instancePricePerHour?: number;
  /**
   * The discount of a savings plan, as a share.
   * @default - the endpoint's discount
   */
  readonly discount?: number;
  /**
   * The maximum wait of a deployment with requirements, up to 12 hours.
   * @default - 4 hours
   */
  readonly timeout?: Duration;
  /**
   * Fail the deployment, so that the stack rolls back, unless its evaluation meets these requirements.
   * @default - none
   */
  readonly require?: Requirements;
}

/**
 * Send copies of the requests to a candidate, and test whether it is worse than production.
 */
export interface Shadow {
  /**
   * The candidate to compare with the served model.
   */
  readonly candidate: ShadowCandidate;
  /**
   * The checks that compare the answers.
   */
  readonly checks: AnswerCheck[];
  /**
   * The percentage of requests that the candidate also answers, above 0, up to 100.
   * @default - none
   */
  readonly samplePercent?: number;
  /**
   * The maximum duration of the run, 3 hours to 30 days.
   * @default - 7 days
   */
  readonly duration?: Duration;
  /**
   * The share of pairs by which a candidate may be worse and still pass, 0.02 for 2 points; also applies to errors.
   * @default - none
   */
  readonly margin?: number;
  /**
   * The share by which the median latency may be higher, 0.1 for 10%.
   * @default - none
   */
  readonly latencyTolerance?: number;
  /**
   * Whether a candidate that passes replaces production.
   * @default - the shadow ends, and a person decides
   */
  readonly promote?: boolean;
  /**
   * An SNS topic that receives the verdict.
   * @default - none
   */
  readonly topic?: aws_sns.ITopic;
  /**
   * The account's quota of the candidate's instance type for endpoints.
   * @default - not checked
   */
  readonly instanceQuota?: number;
}

/**
 * Additions to the endpoint's dashboard.
 */
export interface Dashboard {
  /**
   * Show the cost of the running instances, and calculate evaluations' costs with this price.
   * @default - none
   */
  readonly showCosts?: ShowCosts;
  /**
   * Show the results of this endpoint's evaluations, next to those of a baseline.
   * @default - none
   */
  readonly showEvaluation?: ShowEvaluation[];
  /**
   * Mark a time in every time series graph.
   * @default - none
   */
  readonly addDeployment?: AddDeployment[];
}

/**
 * Accept the findings of a rule in a construct and below it.
 */
export interface Acknowledge {
  /**
   * The ID in a warning, such as `OPT013`, or of a policy rule, such as `POL031`; for another tool's rule, with the tool's name before `::`.
   */
  readonly rule: string;
  /**
   * Why the findings are acceptable here.
   */
  readonly reason: string;
}

/**
 * A Hugging Face model, which a job copies into the artifact store once.
 */
export interface ModelHuggingface {
  /**
   * The model's ID, for example `Qwen/Qwen3-32B`.
   */
  readonly modelId: string;
  /**
   * The commit, 40 hexadecimal digits.
   * @default - the commit in the app's lock file, which `constructs-optim lock --model` records
   */
  readonly revision?: string;
  /**
   * For a gated or private model, the ARN of a Secrets Manager secret that contains a Hugging Face token; only the copy job reads it. May be a CDK token.
   * @default - none
   */
  readonly tokenSecretArn?: string;
  /**
   * The customer managed KMS key of that secret.
   * @default - the AWS managed key
   */
  readonly encryptionKeyArn?: string;
  /**
   * Whether to allow pickle files as weights, which run code when they are loaded.
   * @default - no
   */
  readonly allowPickle?: boolean;
  /**
   * Whether to copy the model's own Python files, which the server then runs (`--trust-remote-code`).
   * @default - no
   */
  readonly allowCode?: boolean;
  /**
   * The copy job's instance type, storage and environment variables, for example `HF_ENDPOINT` for a mirror.
   * @default - one ml.m5.2xlarge, with storage for the model's files
   */
  readonly compute?: TrainingCompute;
  /**
   * What the model does: `generate` text, `embed`, `rerank` documents for a query, `classify`, or `pool` (other outputs of vLLM's pooling models).
   * @default - what its architecture is for, and `embed` if `constructs-optim lock --model` found a Sentence Transformers model
   */
  readonly task?: ModelHuggingfaceTask;
}

/**
 * A SageMaker JumpStart model, which the deployment looks up in the public hub.
 */
export interface ModelJumpstart {
  /**
   * The model's ID, for example `meta-textgeneration-llama-3-70b-instruct`.
   */
  readonly modelId: string;
  /**
   * The model's version, for example `2.25.0`.
   * @default - the newest version when the stack is first deployed. Pin it so that every stack builds the same artifact
   */
  readonly version?: string;
  /**
   * Whether you have read and accept the model's license.
   * @default - no
   */
  readonly acceptEula?: boolean;
}

/**
 * Uncompressed model files (Hugging Face layout) under an S3 prefix.
 */
export interface ModelS3 {
  /**
   * The prefix, for example `s3://bucket/models/llama/`; may contain a token.
   */
  readonly uri: string;
  /**
   * Whether SageMaker passes on your acceptance of the license.
   * @default - no
   */
  readonly acceptEula?: boolean;
  /**
   * The customer managed KMS key that encrypts the files; may be a token.
   * @default - S3 managed keys
   */
  readonly encryptionKeyArn?: string;
  /**
   * The CSV file in S3 that lists the model's files, for a model that is served without a job; may be a token.
   * @default - the model consists of all files under the prefix
   */
  readonly manifestUri?: string;
  /**
   * The ETag of that file, so that no other version of it is used.
   * @default - any version
   */
  readonly manifestEtag?: string;
  /**
   * As for `huggingface`.
   * @default - none
   */
  readonly task?: ModelS3Task;
}

/**
 * A compilation of the model.
 */
export interface Compilation {
  /**
   * Compilation for inf2, trn1 and trn1n instances. The artifact supports exactly these shapes and this precision.
   * @default - none
   */
  readonly neuron?: NeuronCompilation;
  /**
   * Compilation to a TensorRT-LLM engine for GPUs. The engine supports only these shapes and this type of GPU.
   * @default - none
   */
  readonly tensorrtLlm?: TensorRtLlmCompilation;
}

/**
 * A data type of the KV cache.
 */
export interface KvCache {
  /**
   * A KV cache in FP8: twice the tokens in the same memory, without a job. Needs GPUs with FP8.
   * @default - none
   */
  readonly fp8?: Fp8KvCache;
}

/**
 * A quantization of the weights.
 */
export interface Quantization {
  /**
   * AWQ: activation-aware quantization of the weights to INT4. Activations are not quantized. For GPUs.
   * @default - none
   */
  readonly awq?: AwqQuantization;
  /**
   * FP8: weights and activations in 8-bit floating point. For GPUs.
   * @default - none
   */
  readonly fp8?: Fp8Quantization;
  /**
   * SmoothQuant: weights and activations in INT8, with activation outliers moved into the weights.
   * @default - none
   */
  readonly smoothquant?: SmoothQuantization;
  /**
   * FP8 with a scale for each block of 128 by 128 weights. Activations are scaled at run time. For GPUs.
   * @default - none
   */
  readonly fp8Block?: Fp8BlockQuantization;
  /**
   * FP8 with a scale for each row of weights. Activations are scaled at run time, per token. For GPUs.
   * @default - none
   */
  readonly fp8Dynamic?: Fp8DynamicQuantization;
  /**
   * W4A16: weights in INT4, with a scale for each 128 weights. Activations stay in 16 bits. For GPUs.
   * @default - none
   */
  readonly w4a16?: W4A16Quantization;
  /**
   * NVFP4: 4-bit floating point with a scale for each 16 weights. Blackwell GPUs compute in NVFP4, others in 16 bits.
   * @default - none
   */
  readonly nvfp4?: Nvfp4Quantization;
  /**
   * MXFP4: 4-bit floating point with a scale for each 32 weights, as in gpt-oss. For GPUs.
   * @default - none
   */
  readonly mxfp4?: Mxfp4Quantization;
}

/**
 * A division of the weights into shards.
 */
export interface Sharding {
  /**
   * Shards that the fast model loader streams from S3 directly into accelerator memory. For GPUs.
   * @default - none
   */
  readonly fastLoad?: FastLoadSharding;
}

/**
 * Speculative decoding: a draft whose tokens the model verifies.
 */
export interface SpeculativeDecoding {
  /**
   * The draft model that SageMaker provides for a JumpStart model. It needs no job and has no extra cost.
   * @default - none
   */
  readonly sagemakerDraft?: SageMakerDraft;
  /**
   * A smaller JumpStart model as the draft model.
   * @default - none
   */
  readonly jumpstartDraft?: JumpStartDraft;
  /**
   * Your own draft model, with the same tokenizer as the model that it drafts for.
   * @default - none
   */
  readonly customDraft?: CustomDraft;
  /**
   * EAGLE heads that a job trains on the model, and that draft tokens for it.
   * @default - none
   */
  readonly eagle?: EagleHeads;
  /**
   * Draft tokens that followed the same n-gram earlier in the request. Needs no draft model and no memory.
   * @default - none
   */
  readonly ngram?: NgramSpeculation;
  /**
   * A published speculator: heads or a small model, trained to draft for exactly this model. Needs no job.
   * @default - none
   */
  readonly speculator?: Speculator;
  /**
   * The model's own heads for multi-token prediction (MTP), as in DeepSeek, GLM and Qwen3.5. Needs no job.
   * @default - none
   */
  readonly mtp?: MultiTokenPrediction;
}

/**
 * A configuration that JumpStart optimized, with its own image, environment and files. Needs no job.
 */
export interface PreOptimized {
  /**
   * Accelerators (NeuronCores on Neuron devices) per copy of the model.
   * @default - all accelerators of the instance
   */
  readonly tensorParallelDegree?: number;
  /**
   * The configuration's name in the model's hub document.
   * @default - `lmi-optimized`
   */
  readonly config?: string;
  /**
   * Whether you have read and accept the license of the draft model that the configuration serves, if that draft is gated.
   * @default - no
   */
  readonly acceptDraftEula?: boolean;
}

/**
 * Medusa heads: fewer forward passes for the same output. For Llama and Mistral models at small batch sizes.
 */
export interface Medusa {
  /**
   * Accelerators (NeuronCores on Neuron devices) per copy of the model.
   * @default - all accelerators of the instance
   */
  readonly tensorParallelDegree?: number;
  /**
   * Instances, spot capacity and warm pool.
   * @default - one instance of the endpoint's type
   */
  readonly compute?: TrainingCompute;
  /**
   * S3 prefix with one or more `*.jsonl` files; may be or contain a token. https://constructs-optim.dev/medusa/ describes the formats.
   */
  readonly trainingData: string;
  /**
   * S3 prefix in the same format, evaluated at each checkpoint. Evaluation can stop training early.
   * @default - none; training runs all epochs
   */
  readonly validationData?: string;
  /**
   * Hyperparameters that differ from the defaults; https://constructs-optim.dev/medusa/ lists names, defaults and ranges.
   * @default - none
   */
  readonly hyperparameters?: { [key: string]: any };
  /**
   * Number of heads, each of which drafts one token, 1 to 16.
   * @default - 5
   */
  readonly heads?: number;
  /**
   * Number of residual blocks in each head, 1 to 8.
   * @default - 1
   */
  readonly layers?: number;
  /**
   * The `FineTune` whose result the heads are trained on.
   * @default - the original model
   */
  readonly base?: FineTune;
}

/**
 * Supervised fine-tuning of a Llama or Mistral model, on chats or instructions.
 */
export interface FineTune {
  /**
   * Accelerators (NeuronCores on Neuron devices) per copy of the model.
   * @default - all accelerators of the instance
   */
  readonly tensorParallelDegree?: number;
  /**
   * Instances, spot capacity and warm pool.
   * @default - one instance of the endpoint's type
   */
  readonly compute?: TrainingCompute;
  /**
   * S3 prefix with one or more `*.jsonl` files; may be or contain a token. https://constructs-optim.dev/medusa/ describes the formats.
   */
  readonly trainingData: string;
  /**
   * S3 prefix in the same format, evaluated at each checkpoint. Evaluation can stop training early.
   * @default - none; training runs all epochs
   */
  readonly validationData?: string;
  /**
   * Hyperparameters that differ from the defaults; https://constructs-optim.dev/medusa/ lists names, defaults and ranges.
   * @default - none
   */
  readonly hyperparameters?: { [key: string]: any };
  /**
   * `qlora` (adapters on 4-bit weights), `lora` or `full`.
   * @default - `qlora`
   */
  readonly method?: FineTuneMethod;
}

/**
 * Refer to a store in an existing bucket, of this app or another.
 */
export interface ArtifactStoreFromBucket {
  /**
   * The bucket of the artifacts.
   */
  readonly bucket: aws_s3.IBucket;
  /**
   * The KMS key of its objects.
   * @default - the key of the `bucket` object, if any
   */
  readonly encryptionKey?: aws_kms.IKey;
  /**
   * Whether this app may only refer to artifacts by key, for instance in another account's store that is shared read-only.
   * @default - it may also create artifacts
   */
  readonly readOnly?: boolean;
}

/**
 * AWS's container for vLLM.
 */
export interface VllmServer {
  /**
   * The tag of the container image, or a prefix of the tag, for example `0.30.0` or `0.36.0-lmi27`. The lock file records the tag that a prefix resolves to.
   * @default - the version in the lock file; in a new app, the newest version that supports the model and its techniques
   */
  readonly containerVersion?: string;
  /**
   * Maximum number of tokens of a request, prompt and completion together.
   * @default - the model's context, or as much as fits in memory
   */
  readonly contextLength?: number;
  /**
   * Maximum number of requests in a batch.
   * @default - vLLM's default
   */
  readonly maxConcurrentRequests?: number;
  /**
   * Whether requests reuse the KV cache of a common prefix.
   * @default - vLLM's default, yes
   */
  readonly prefixCaching?: boolean;
  /**
   * Whether the engine processes long prompts in chunks.
   * @default - vLLM's default, yes
   */
  readonly chunkedPrefill?: boolean;
  /**
   * The parser that separates reasoning from the reply, for example `qwen3`.
   * @default - the model's parser in the catalog
   */
  readonly reasoningParser?: string;
  /**
   * The parser for tool calls, for example `hermes`.
   * @default - the model's parser in the catalog
   */
  readonly toolCallParser?: string;
  /**
   * Limits for LoRA adapters.
   * @default - no adapters
   */
  readonly adapters?: Adapters;
}

/**
 * AWS's container for SGLang.
 */
export interface SglangServer {
  /**
   * The tag of the container image, or a prefix of the tag, for example `0.30.0` or `0.36.0-lmi27`. The lock file records the tag that a prefix resolves to.
   * @default - the version in the lock file; in a new app, the newest version that supports the model and its techniques
   */
  readonly containerVersion?: string;
  /**
   * As for `VllmServer`, like the other attributes. `adapters` is not supported: SGLang has no `/adapters`.
   * @default - none
   */
  readonly contextLength?: number;
  /**
   * Maximum number of requests in a batch.
   * @default - vLLM's default
   */
  readonly maxConcurrentRequests?: number;
  /**
   * Whether requests reuse the KV cache of a common prefix.
   * @default - vLLM's default, yes
   */
  readonly prefixCaching?: boolean;
  /**
   * Whether the engine processes long prompts in chunks.
   * @default - vLLM's default, yes
   */
  readonly chunkedPrefill?: boolean;
  /**
   * The parser that separates reasoning from the reply, for example `qwen3`.
   * @default - the model's parser in the catalog
   */
  readonly reasoningParser?: string;
  /**
   * The parser for tool calls, for example `hermes`.
   * @default - the model's parser in the catalog
   */
  readonly toolCallParser?: string;
  /**
   * Limits for LoRA adapters.
   * @default - no adapters
   */
  readonly adapters?: Adapters;
}

/**
 * AWS's container for Large Model Inference: djl-serving with vLLM.
 */
export interface LmiServer {
  /**
   * The tag of the container image, or a prefix of the tag, for example `0.30.0` or `0.36.0-lmi27`. The lock file records the tag that a prefix resolves to.
   * @default - the version in the lock file; in a new app, the newest version that supports the model and its techniques
   */
  readonly containerVersion?: string;
  /**
   * As for `VllmServer`, like the other attributes.
   * @default - none
   */
  readonly contextLength?: number;
  /**
   * Maximum number of requests in a batch.
   * @default - vLLM's default
   */
  readonly maxConcurrentRequests?: number;
  /**
   * Whether requests reuse the KV cache of a common prefix.
   * @default - vLLM's default, yes
   */
  readonly prefixCaching?: boolean;
  /**
   * Whether the engine processes long prompts in chunks.
   * @default - vLLM's default, yes
   */
  readonly chunkedPrefill?: boolean;
  /**
   * The parser that separates reasoning from the reply, for example `qwen3`.
   * @default - the model's parser in the catalog
   */
  readonly reasoningParser?: string;
  /**
   * The parser for tool calls, for example `hermes`.
   * @default - the model's parser in the catalog
   */
  readonly toolCallParser?: string;
  /**
   * Limits for LoRA adapters.
   * @default - no adapters
   */
  readonly adapters?: Adapters;
}

/**
 * AWS's container for Text Generation Inference, which Medusa heads need. The project is in maintenance mode.
 */
export interface TextGenerationInferenceServer {
  /**
   * The tag of the container image, or a prefix of the tag, for example `0.30.0` or `0.36.0-lmi27`. The lock file records the tag that a prefix resolves to.
   * @default - the version in the lock file; in a new app, the newest version that supports the model and its techniques
   */
  readonly containerVersion?: string;
}

/**
 * How SageMaker places the copies of an inference component on instances.
 */
export interface Placement {
  /**
   * Spread copies evenly over the instances, so that the loss of an instance removes fewer copies.
   * @default - none
   */
  readonly spread?: PlacementSpread;
  /**
   * Place copies on as few instances as possible.
   * @default - none
   */
  readonly binpack?: PlacementBinpack;
}

/**
 * An ML capacity reservation (a training plan). SageMaker launches the endpoint's instances only in it.
 */
export interface CapacityReservation {
  /**
   * The reservation's ARN.
   */
  readonly arn: string;
}

/**
 * The routing strategy: how an endpoint chooses an instance, or a copy of an inference component, for a request.
 */
export interface Routing {
  /**
   * Route to the instance or copy with the fewest outstanding requests. The default.
   * @default - none
   */
  readonly leastOutstandingRequests?: RoutingLeastOutstandingRequests;
  /**
   * Route to a random instance or copy.
   * @default - none
   */
  readonly random?: RoutingRandom;
  /**
   * Route requests with the same prompt prefix to the same instance or copy, whose KV cache holds the prefix.
   * @default - none
   */
  readonly prefixAware?: RoutingPrefixAware;
  /**
   * Route to an instance or copy whose KV cache holds the start of the prompt, and that is not too busy.
   * @default - none
   */
  readonly kvAware?: RoutingKvAware;
}

/**
 * How SageMaker releases instances when inference components scale in.
 */
export interface ScaleIn {
  /**
   * Release only instances without a copy.
   * @default - none
   */
  readonly idleRelease?: ScaleInIdleRelease;
  /**
   * Move copies to fewer instances, as far as their placement allows, and release the others.
   * @default - none
   */
  readonly consolidation?: ScaleInConsolidation;
}

/**
 * Core dumps in S3, written when the process of the model's container crashes.
 */
export interface CoreDumps {
  /**
   * The bucket for the dumps. A dump contains the process's memory, including prompts and completions: encrypt the bucket, and restrict its readers.
   */
  readonly bucket: aws_s3.IBucket;
  /**
   * The prefix of the dumps' object keys.
   * @default - `core-dumps`
   */
  readonly prefix?: string;
  /**
   * The KMS key of the dumps.
   * @default - the account's AWS managed key for Amazon S3
   */
  readonly encryptionKey?: aws_kms.IKey;
}

/**
 * The alarms of an endpoint. A truth value enables an alarm with its defaults or disables it; settings tune it.
 */
export interface Alarms {
  /**
   * Percentage of failed requests in the last 5 minutes: 5xx statuses, requests without a response, and streams that broke off.
   * @default - above 5
   */
  readonly errorRate?: AlarmSettings;
  /**
   * Instead of `errorRate`: `true` for its defaults, `false` to omit it.
   * @default - `errorRate`
   */
  readonly errorRateEnabled?: boolean;
  /**
   * The same in the last hour, for endpoints with few requests.
   * @default - above 20
   */
  readonly hourlyErrorRate?: AlarmSettings;
  /**
   * Instead of `hourlyErrorRate`: `true` for its defaults, `false` to omit it.
   * @default - `hourlyErrorRate`
   */
  readonly hourlyErrorRateEnabled?: boolean;
  /**
   * P99 latency in seconds. It depends on the length of the responses, which only you know, so the alarm is off by default and needs a threshold.
   * @default - none
   */
  readonly latency?: AlarmSettings;
  /**
   * Instead of `latency`: `true` for its defaults, `false` to omit it.
   * @default - `latency`
   */
  readonly latencyEnabled?: boolean;
  /**
   * P90 time to first token in seconds, as measured by the engine. It depends on the prompts, so the alarm is off by default and needs a threshold.
   * @default - none
   */
  readonly timeToFirstToken?: AlarmSettings;
  /**
   * Instead of `timeToFirstToken`: `true` for its defaults, `false` to omit it.
   * @default - `timeToFirstToken`
   */
  readonly timeToFirstTokenEnabled?: boolean;
  /**
   * Number of requests that wait in the engines of all copies, for 10 minutes.
   * @default - off; if on, above 8
   */
  readonly queue?: AlarmSettings;
  /**
   * Instead of `queue`: `true` for its defaults, `false` to omit it.
   * @default - `queue`
   */
  readonly queueEnabled?: boolean;
  /**
   * Percentage of the KV cache that running requests use, for 15 minutes.
   * @default - off; if on, above 95
   */
  readonly kvCache?: AlarmSettings;
  /**
   * Instead of `kvCache`: `true` for its defaults, `false` to omit it.
   * @default - `kvCache`
   */
  readonly kvCacheEnabled?: boolean;
  /**
   * Tokens per step of speculative decoding, for half an hour. It depends on the draft and the prompts, so the alarm is off by default and needs a threshold, which is a lower limit.
   * @default - none
   */
  readonly acceptanceLength?: AlarmSettings;
  /**
   * Instead of `acceptanceLength`: `true` for its defaults, `false` to omit it.
   * @default - `acceptanceLength`
   */
  readonly acceptanceLengthEnabled?: boolean;
  /**
   * Acceptance length of the last half hour, as a percentage of the same containers' acceptance length in the last 23 hours, for half an hour.
   * @default - off, or on with a `speculationCure`; if on, below 90
   */
  readonly acceptanceDecay?: AlarmSettings;
  /**
   * Instead of `acceptanceDecay`: `true` for its defaults, `false` to omit it.
   * @default - `acceptanceDecay`
   */
  readonly acceptanceDecayEnabled?: boolean;
  /**
   * Concurrent requests of each instance or copy, in 10 of 15 minutes.
   * @default - above the number that the plan is sized for
   */
  readonly saturation?: AlarmSettings;
  /**
   * Instead of `saturation`: `true` for its defaults, `false` to omit it.
   * @default - `saturation`
   */
  readonly saturationEnabled?: boolean;
  /**
   * No instance or copy is in service.
   * @default - on
   */
  readonly zeroCapacity?: AlarmSettings;
  /**
   * Instead of `zeroCapacity`: `true` for its defaults, `false` to omit it.
   * @default - `zeroCapacity`
   */
  readonly zeroCapacityEnabled?: boolean;
  /**
   * Percentage in use of the fullest disk of the instances, for 15 minutes.
   * @default - off; if on, above 90
   */
  readonly disk?: AlarmSettings;
  /**
   * Instead of `disk`: `true` for its defaults, `false` to omit it.
   * @default - `disk`
   */
  readonly diskEnabled?: boolean;
  /**
   * An optimization job failed in this account and Region.
   * @default - on if the stack runs jobs
   */
  readonly failedJob?: AlarmSettings;
  /**
   * Instead of `failedJob`: `true` for its defaults, `false` to omit it.
   * @default - `failedJob`
   */
  readonly failedJobEnabled?: boolean;
  /**
   * Days without an evaluation, at most 7.
   * @default - on if the endpoint has an evaluation
   */
  readonly staleEvaluation?: AlarmSettings;
  /**
   * Instead of `staleEvaluation`: `true` for its defaults, `false` to omit it.
   * @default - `staleEvaluation`
   */
  readonly staleEvaluationEnabled?: boolean;
}

/**
 * Additional metrics that SageMaker publishes, and their frequency.
 */
export interface Observability {
  /**
   * The publishing interval: 10, 30, 60, 120, 180, 240 or 300.
   * @default - 60
   */
  readonly frequencySeconds?: number;
  /**
   * Whether to also publish invocations and utilization per instance and container.
   * @default - no
   */
  readonly enhanced?: boolean;
  /**
   * Whether to publish metrics of the model's container (from its Prometheus endpoint: tokens, time to first token), of each GPU and instance, and the placement of copies.
   * @default - SageMaker's default, which is yes for new configurations
   */
  readonly detailed?: boolean;
}

/**
 * A cure for speculative decoding whose acceptance length has decayed.
 */
export interface SpeculationCure {
  /**
   * Replace the instances automatically, according to the endpoint's update policy.
   * @default - none
   */
  readonly restart?: SpeculationCureRestart;
  /**
   * Draft fewer tokens per step.
   * @default - none
   */
  readonly shorterDrafts?: SpeculationCureShorterDrafts;
  /**
   * Serve without speculative decoding.
   * @default - none
   */
  readonly draftsOff?: SpeculationCureDraftsOff;
  /**
   * Train EAGLE heads again, on traffic that the endpoint captured since the last training.
   * @default - none
   */
  readonly trainAnew?: SpeculationCureTrainAnew;
}

/**
 * Create a second fleet of the same size, and shift all traffic once it is in service.
 */
export interface UpdatePolicyAllAtOnce {
  /**
   * How long SageMaker watches the alarms after each step, 0 s to 1 hour.
   * @default - 10 minutes
   */
  readonly bakeTime?: Duration;
  /**
   * The maximum duration of the update, 10 minutes to 8 hours.
   * @default - SageMaker's default
   */
  readonly timeout?: Duration;
  /**
   * Alarms that roll the update back, in addition to the endpoint's own. For an imported composite alarm, grant the role permissions yourself, scoped to `*`.
   * @default - none
   */
  readonly rollbackAlarms?: aws_cloudwatch.IAlarm[];
}

/**
 * Create a second fleet, and shift a part of the traffic first, then the rest.
 */
export interface UpdatePolicyCanary {
  /**
   * How long SageMaker watches the alarms after each step, 0 s to 1 hour.
   * @default - 10 minutes
   */
  readonly bakeTime?: Duration;
  /**
   * The maximum duration of the update, 10 minutes to 8 hours.
   * @default - SageMaker's default
   */
  readonly timeout?: Duration;
  /**
   * Alarms that roll the update back, in addition to the endpoint's own.
   * @default - none
   */
  readonly rollbackAlarms?: aws_cloudwatch.IAlarm[];
  /**
   * The size of a step, as a percentage of the instances.
   * @default - none
   */
  readonly percent?: number;
  /**
   * The size of a step as a number of instances, instead of `percent`.
   * @default - none
   */
  readonly instances?: number;
  /**
   * How long the old fleet is kept after the last step.
   * @default - not at all
   */
  readonly terminationWait?: Duration;
}

/**
 * Create a second fleet, and shift the traffic in equal steps.
 */
export interface UpdatePolicyLinear {
  /**
   * How long SageMaker watches the alarms after each step, 0 s to 1 hour.
   * @default - 10 minutes
   */
  readonly bakeTime?: Duration;
  /**
   * The maximum duration of the update, 10 minutes to 8 hours.
   * @default - SageMaker's default
   */
  readonly timeout?: Duration;
  /**
   * Alarms that roll the update back, in addition to the endpoint's own.
   * @default - none
   */
  readonly rollbackAlarms?: aws_cloudwatch.IAlarm[];
  /**
   * The size of a step, as a percentage of the instances.
   * @default - none
   */
  readonly percent?: number;
  /**
   * The size of a step as a number of instances, instead of `percent`.
   * @default - none
   */
  readonly instances?: number;
  /**
   * How long the old fleet is kept after the last step.
   * @default - not at all
   */
  readonly terminationWait?: Duration;
}

/**
 * Replace instances batch by batch, which needs the least additional capacity.
 */
export interface UpdatePolicyRolling {
  /**
   * The size of a batch, 5 to 50% of the instances.
   * @default - 25, without `instances`
   */
  readonly percent?: number;
  /**
   * The size of a batch as a number of instances.
   * @default - none
   */
  readonly instances?: number;
  /**
   * The size of a batch when rolling back.
   * @default - all at once
   */
  readonly rollbackPercent?: number;
  /**
   * How long SageMaker watches the alarms after each step, 0 s to 1 hour.
   * @default - 10 minutes
   */
  readonly bakeTime?: Duration;
  /**
   * The maximum duration of the update, 10 minutes to 8 hours.
   * @default - SageMaker's default
   */
  readonly timeout?: Duration;
  /**
   * Alarms that roll the update back, in addition to the endpoint's own. For an imported composite alarm, grant the role permissions yourself, scoped to `*`.
   * @default - none
   */
  readonly rollbackAlarms?: aws_cloudwatch.IAlarm[];
}

/**
 * Serve a LoRA adapter of this model. Requests name the adapter instead of the component.
 */
export interface Adapter {
  /**
   * The S3 URI of the archive with the adapter's weights and configuration, `s3://.../*.tar.gz`; may be a token.
   */
  readonly artifactUri: string;
  /**
   * The adapter's name.
   * @default - generated from its path in the app
   */
  readonly adapterName?: string;
}

/**
 * Keep the concurrent requests of each instance or copy near `target`.
 */
export interface OnConcurrency {
  /**
   * Requests in flight for each instance or copy, above zero.
   * @default - 70% of the plan's capacity (its batch size, as far as the KV cache allows), because a new copy takes minutes to load, and the other copies serve the requests until then
   */
  readonly target?: number;
  /**
   * The policy's name; keep the name of an imported policy.
   * @default - the method's name
   */
  readonly policyName?: string;
  /**
   * The cool-down after scaling in.
   * @default - 10 minutes, because a copy that is needed again must load tens of gigabytes
   */
  readonly scaleInCooldown?: Duration;
  /**
   * The cool-down after scaling out.
   * @default - 1 minute
   */
  readonly scaleOutCooldown?: Duration;
  /**
   * Whether the policy only scales out.
   * @default - it also scales in
   */
  readonly disableScaleIn?: boolean;
}

/**
 * Keep the invocations a minute of each instance or copy near `target`.
 */
export interface OnInvocations {
  /**
   * Invocations a minute for each instance or copy, above zero.
   * @default - none
   */
  readonly target?: number;
  /**
   * The average duration of a request, above zero. The target is then the rate that keeps the default number of requests in flight (see `onConcurrency`).
   * @default - none
   */
  readonly requestSeconds?: number;
  /**
   * The policy's name; keep the name of an imported policy.
   * @default - the method's name
   */
  readonly policyName?: string;
  /**
   * The cool-down after scaling in.
   * @default - 10 minutes, because a copy that is needed again must load tens of gigabytes
   */
  readonly scaleInCooldown?: Duration;
  /**
   * The cool-down after scaling out.
   * @default - 1 minute
   */
  readonly scaleOutCooldown?: Duration;
  /**
   * Whether the policy only scales out.
   * @default - it also scales in
   */
  readonly disableScaleIn?: boolean;
}

/**
 * Keep an asynchronous endpoint's waiting requests for each instance near `target`.
 */
export interface OnBacklog {
  /**
   * Waiting requests for each instance, above zero.
   * @default - the default target of `onConcurrency`
   */
  readonly target?: number;
  /**
   * The policy's name; keep the name of an imported policy.
   * @default - the method's name
   */
  readonly policyName?: string;
  /**
   * The cool-down after scaling in.
   * @default - 10 minutes, because a copy that is needed again must load tens of gigabytes
   */
  readonly scaleInCooldown?: Duration;
  /**
   * The cool-down after scaling out.
   * @default - 1 minute
   */
  readonly scaleOutCooldown?: Duration;
  /**
   * Whether the policy only scales out.
   * @default - it also scales in
   */
  readonly disableScaleIn?: boolean;
}

/**
 * Scale on the time to first token.
 */
export interface OnTimeToFirstToken {
  /**
   * The time to first token in seconds.
   */
  readonly target: number;
  /**
   * The share of requests that must meet the target.
   * @default - 0.9
   */
  readonly quantile?: number;
  /**
   * The policy's name; keep the name of an imported policy.
   * @default - the method's name
   */
  readonly policyName?: string;
  /**
   * The cool-down after scaling in.
   * @default - 10 minutes, because a copy that is needed again must load tens of gigabytes
   */
  readonly scaleInCooldown?: Duration;
  /**
   * The cool-down after scaling out.
   * @default - 1 minute
   */
  readonly scaleOutCooldown?: Duration;
  /**
   * Whether the policy only scales out.
   * @default - it also scales in
   */
  readonly disableScaleIn?: boolean;
}

/**
 * Keep the KV cache utilization, averaged over the copies, below `target`.
 */
export interface OnKvCache {
  /**
   * Percent, at most 95.
   */
  readonly target: number;
  /**
   * The policy's name; keep the name of an imported policy.
   * @default - the method's name
   */
  readonly policyName?: string;
  /**
   * The cool-down after scaling in.
   * @default - 10 minutes, because a copy that is needed again must load tens of gigabytes
   */
  readonly scaleInCooldown?: Duration;
  /**
   * The cool-down after scaling out.
   * @default - 1 minute
   */
  readonly scaleOutCooldown?: Duration;
  /**
   * Whether the policy only scales out.
   * @default - it also scales in
   */
  readonly disableScaleIn?: boolean;
}

/**
 * Scale out while more than `target` requests for each instance or copy wait in the engine.
 */
export interface OnQueue {
  /**
   * Waiting requests for each instance or copy.
   */
  readonly target: number;
  /**
   * The policy's name; keep the name of an imported policy.
   * @default - the method's name
   */
  readonly policyName?: string;
  /**
   * The cool-down after scaling in.
   * @default - 10 minutes, because a copy that is needed again must load tens of gigabytes
   */
  readonly scaleInCooldown?: Duration;
  /**
   * The cool-down after scaling out.
   * @default - 1 minute
   */
  readonly scaleOutCooldown?: Duration;
  /**
   * Whether the policy only scales out.
   * @default - it also scales in
   */
  readonly disableScaleIn?: boolean;
}

/**
 * Keep the generated tokens a second of each instance or copy below `target`.
 */
export interface OnTokensPerSecond {
  /**
   * Tokens a second for each instance or copy.
   */
  readonly target: number;
  /**
   * The policy's name; keep the name of an imported policy.
   * @default - the method's name
   */
  readonly policyName?: string;
  /**
   * The cool-down after scaling in.
   * @default - 10 minutes, because a copy that is needed again must load tens of gigabytes
   */
  readonly scaleInCooldown?: Duration;
  /**
   * The cool-down after scaling out.
   * @default - 1 minute
   */
  readonly scaleOutCooldown?: Duration;
  /**
   * Whether the policy only scales out.
   * @default - it also scales in
   */
  readonly disableScaleIn?: boolean;
}

/**
 * Keep any metric, or metric math, near `target`.
 */
export interface OnMetric {
  /**
   * The metric to track.
   */
  readonly metric: string;
  /**
   * The value to keep, above zero.
   */
  readonly target: number;
  /**
   * The policy's name; keep the name of an imported policy.
   * @default - the method's name
   */
  readonly policyName?: string;
  /**
   * The cool-down after scaling in.
   * @default - 10 minutes, because a copy that is needed again must load tens of gigabytes
   */
  readonly scaleInCooldown?: Duration;
  /**
   * The cool-down after scaling out.
   * @default - 1 minute
   */
  readonly scaleOutCooldown?: Duration;
  /**
   * Whether the policy only scales out.
   * @default - it also scales in
   */
  readonly disableScaleIn?: boolean;
}

/**
 * Add or remove capacity in steps by the value of a metric, each direction with its own alarm and policy.
 */
export interface OnSteps {
  /**
   * The metric.
   */
  readonly metric: string;
  /**
   * The changes and the values, in the metric's own unit, that trigger them; for instance a `change` of 1 with a `lower` of 16, and a `change` of -1 with an `upper` of 2.
   */
  readonly steps: ScalingStep[];
  /**
   * The meaning of a step's `change`: `ChangeInCapacity` (the default), `PercentChangeInCapacity` or `ExactCapacity`.
   * @default - none
   */
  readonly adjustment?: string;
  /**
   * The cool-down after a step.
   * @default - 5 minutes
   */
  readonly cooldown?: Duration;
  /**
   * With `PercentChangeInCapacity`, the smallest number to add or remove.
   * @default - 1
   */
  readonly minAdjustmentMagnitude?: number;
  /**
   * The number of the metric's last periods to evaluate.
   * @default - 1
   */
  readonly evaluationPeriods?: number;
  /**
   * The number of these periods in which a step must be reached.
   * @default - all
   */
  readonly datapointsToAlarm?: number;
}

/**
 * Change the range on a schedule. Policies continue within the new range.
 */
export interface OnSchedule {
  /**
   * The schedule, for instance `cron(0 7 ? * MON-FRI *)`.
   */
  readonly schedule: string;
  /**
   * The new minimum number of instances or copies.
   * @default - unchanged
   */
  readonly minCapacity?: number;
  /**
   * The new maximum number.
   * @default - unchanged
   */
  readonly maxCapacity?: number;
  /**
   * A name such as `Europe/Berlin`.
   * @default - UTC
   */
  readonly timeZone?: string;
  /**
   * When the schedule begins, in UTC if it has no time zone.
   * @default - immediately
   */
  readonly start?: string;
  /**
   * When the schedule ends, in UTC if it has no time zone.
   * @default - never
   */
  readonly end?: string;
}

/**
 * Stop the endpoint on a schedule: it has no copies, and requests start none. Endpoint and artifact remain.
 */
export interface StopOn {
  /**
   * The schedule, for instance `cron(0 19 ? * MON-FRI *)`.
   */
  readonly schedule: string;
  /**
   * The scheduled action's name.
   * @default - `Stop`
   */
  readonly id?: string;
  /**
   * A name such as `Europe/Berlin`.
   * @default - UTC
   */
  readonly timeZone?: string;
  /**
   * When the schedule begins, in UTC if it has no time zone.
   * @default - immediately
   */
  readonly start?: string;
  /**
   * When the schedule ends, in UTC if it has no time zone.
   * @default - never
   */
  readonly end?: string;
}

/**
 * Start the endpoint on a schedule, after `stopOn`.
 */
export interface StartOn {
  /**
   * The schedule, for instance `cron(0 7 ? * MON-FRI *)`. Schedule it early, because a model takes minutes to load.
   */
  readonly schedule: string;
  /**
   * The scheduled action's name.
   * @default - `Start`
   */
  readonly id?: string;
  /**
   * The new minimum number of copies.
   * @default - the range's minimum, at least 1
   */
  readonly minCapacity?: number;
  /**
   * The new maximum number of copies.
   * @default - the range's maximum
   */
  readonly maxCapacity?: number;
  /**
   * A name such as `Europe/Berlin`.
   * @default - UTC
   */
  readonly timeZone?: string;
  /**
   * When the schedule begins, in UTC if it has no time zone.
   * @default - immediately
   */
  readonly start?: string;
  /**
   * When the schedule ends, in UTC if it has no time zone.
   * @default - never
   */
  readonly end?: string;
}

/**
 * Users who send requests continuously: each sends the next request as soon as the previous response is complete.
 */
export interface Workload {
  /**
   * Numbers of concurrent users; each number is a separate measurement.
   * @default - none
   */
  readonly concurrency?: number[];
  /**
   * Mean length of a synthetic prompt, in tokens.
   * @default - none
   */
  readonly inputTokens?: number;
  /**
   * Its standard deviation.
   * @default - none
   */
  readonly inputTokensStddev?: number;
  /**
   * Number of texts in a request to embed or classify, or of documents to rerank; for models that generate no text, which have none of the settings of output tokens, warm-up requests, tokenizer, secret and parameters.
   * @default - none
   */
  readonly inputsPerRequest?: number;
  /**
   * Number of tokens to request.
   * @default - none
   */
  readonly outputTokens?: number;
  /**
   * Their standard deviation.
   * @default - none
   */
  readonly outputTokensStddev?: number;
  /**
   * A JSON Lines file of your own prompts in S3 (`s3://bucket/key.jsonl`), each line with `text`, or with `query` and `documents` to rerank.
   * @default - synthetic prompts
   */
  readonly prompts?: string;
  /**
   * Number of requests at each concurrency.
   * @default - 100, or eight per user if that is more, because requests before every user's first response do not count
   */
  readonly requests?: number;
  /**
   * Instead of `requests`, how long to send requests.
   * @default - none
   */
  readonly durationSeconds?: number;
  /**
   * Number of earlier requests that do not count.
   * @default - none
   */
  readonly warmupRequests?: number;
  /**
   * The Hugging Face ID of the model's tokenizer.
   * @default - SageMaker's default
   */
  readonly tokenizer?: string;
  /**
   * A Secrets Manager secret that holds a Hugging Face token, for a gated tokenizer.
   * @default - none
   */
  readonly tokenSecretArn?: string;
  /**
   * How long a response may take.
   * @default - none
   */
  readonly requestTimeoutSeconds?: number;
  /**
   * Seed of the random number generator.
   * @default - none
   */
  readonly seed?: number;
  /**
   * Additional workload parameters, by SageMaker's names; they override the settings above.
   * @default - none
   */
  readonly parameters?: { [key: string]: any };
}

/**
 * One side of a comparison.
 */
export interface EvaluatedModel {
  /**
   * Its name, for instance `baseline`.
   */
  readonly label: string;
  /**
   * The evaluated variant or component, with the `artifactKey` of its published metrics.
   */
  readonly served: string;
  /**
   * The price of its instance an hour.
   * @default - the price that the evaluation published
   */
  readonly instancePricePerHour?: number;
}

/**
 * Fail the deployment, so that the stack rolls back, unless its evaluation meets these requirements.
 */
export interface Requirements {
  /**
   * The number of concurrent users at which limits and comparisons apply.
   * @default - each measured number
   */
  readonly atConcurrency?: number;
  /**
   * How much worse than before the deployment each of `regressionMetrics` may be, as a share: 0.05 for 5%. The first evaluation has no comparison.
   * @default - no comparison
   */
  readonly maxRegression?: number;
  /**
   * Metric names from https://constructs-optim.dev/metrics/.
   * @default - median time to first token and inter-token latency, client latency at its 90th percentile, and output tokens a second; for a model that generates no text, client latency at its 90th percentile and inputs a second
   */
  readonly regressionMetrics?: RequirementsRegressionMetrics[];
  /**
   * Requirements on the answers.
   * @default - none
   */
  readonly quality?: QualityRequirement;
  /**
   * For an endpoint with objectives, whether latencies must stay within the forecast's intervals.
   * @default - the report lists latencies outside the intervals
   */
  readonly forecast?: boolean;
  /**
   * The mean time to first token, at most.
   * @default - none
   */
  readonly meanTtftMs?: number;
  /**
   * The median time to first token, at most.
   * @default - none
   */
  readonly p50TtftMs?: number;
  /**
   * The 90th percentile of the time to first token, at most.
   * @default - none
   */
  readonly p90TtftMs?: number;
  /**
   * The 99th percentile of the time to first token, at most.
   * @default - none
   */
  readonly p99TtftMs?: number;
  /**
   * The mean inter-token latency, at most.
   * @default - none
   */
  readonly meanItlMs?: number;
  /**
   * The median inter-token latency, at most.
   * @default - none
   */
  readonly p50ItlMs?: number;
  /**
   * The 90th percentile of the inter-token latency, at most.
   * @default - none
   */
  readonly p90ItlMs?: number;
  /**
   * The 99th percentile of the inter-token latency, at most.
   * @default - none
   */
  readonly p99ItlMs?: number;
  /**
   * The mean latency as the client sees it, at most.
   * @default - none
   */
  readonly meanClientLatencyMs?: number;
  /**
   * The median latency as the client sees it, at most.
   * @default - none
   */
  readonly p50ClientLatencyMs?: number;
  /**
   * The 90th percentile of the latency as the client sees it, at most.
   * @default - none
   */
  readonly p90ClientLatencyMs?: number;
  /**
   * The 99th percentile of the latency as the client sees it, at most.
   * @default - none
   */
  readonly p99ClientLatencyMs?: number;
  /**
   * Output tokens per second of all requests together, at least.
   * @default - none
   */
  readonly minOutputTokensPerSecond?: number;
  /**
   * Input tokens per second of all requests together, at least.
   * @default - none
   */
  readonly minInputTokensPerSecond?: number;
  /**
   * Texts that are embedded or classified, or documents that are scored, per second, at least; for models that generate no text.
   * @default - none
   */
  readonly minInputsPerSecond?: number;
  /**
   * Output tokens per second of all users, derived from the median inter-token latency, at least.
   * @default - none
   */
  readonly minTotalThroughput?: number;
  /**
   * Mean tokens per step of speculative decoding, at least.
   * @default - none
   */
  readonly minAcceptanceLength?: number;
  /**
   * The share of requests that fail, at most.
   * @default - 0.01
   */
  readonly maxErrorRate?: number;
  /**
   * The price of a million input tokens, at most.
   * @default - none
   */
  readonly maxPricePerMillionInputTokens?: number;
  /**
   * The price of a million output tokens, at most.
   * @default - none
   */
  readonly maxPricePerMillionOutputTokens?: number;
  /**
   * The price of a million tokens, three input tokens to one output token, at most.
   * @default - none
   */
  readonly maxBlendedPricePerMillionTokens?: number;
}

/**
 * A candidate to replace an endpoint's model: the same model with other techniques, or another model.
 */
export interface ShadowCandidate {
  /**
   * The techniques to apply, in order.
   * @default - none
   */
  readonly techniques?: Technique[];
  /**
   * The source of the weights.
   * @default - the endpoint's
   */
  readonly model?: Model;
  /**
   * The candidate's instance type.
   * @default - the endpoint's
   */
  readonly instanceType?: string;
  /**
   * The number of the candidate's instances.
   * @default - 1
   */
  readonly instanceCount?: number;
  /**
   * The model server.
   * @default - the endpoint's
   */
  readonly server?: Server;
  /**
   * Additional environment variables of the container.
   * @default - the endpoint's
   */
  readonly environment?: { [key: string]: string };
  /**
   * The key of an existing artifact, as for `OptimizedEndpoint`.
   * @default - jobs create the artifacts that are missing from the store
   */
  readonly artifactKey?: string;
}

/**
 * A check that compares a candidate's responses with production's.
 */
export interface AnswerCheck {
  /**
   * The response has content: text, or a tool call.
   * @default - none
   */
  readonly answered?: AnswerCheckAnswered;
  /**
   * The response is JSON if the request's `responseFormat` requires it.
   * @default - none
   */
  readonly jsonValid?: AnswerCheckJsonValid;
  /**
   * If production calls tools, the candidate also does, with arguments that match the request's schema.
   * @default - none
   */
  readonly toolCalls?: AnswerCheckToolCalls;
  /**
   * The response equals the reference answer in an S3 file, for the prompts in that file.
   * @default - none
   */
  readonly reference?: AnswerCheckReference;
  /**
   * A Lambda function decides whether each of the two responses is correct.
   * @default - none
   */
  readonly judge?: AnswerCheckJudge;
  /**
   * For requests with temperature 0, a share of the pairs has identical texts.
   * @default - none
   */
  readonly exactMatch?: AnswerCheckExactMatch;
  /**
   * For responses with `topLogprobs`, a share of the pairs has the same most likely first token.
   * @default - none
   */
  readonly topToken?: AnswerCheckTopToken;
}

/**
 * Show the cost of the running instances, and calculate evaluations' costs with this price.
 */
export interface ShowCosts {
  /**
   * The price of one instance in US dollars an hour.
   */
  readonly instancePricePerHour: number;
  /**
   * The discount of a savings plan, as a share.
   * @default - 0
   */
  readonly discount?: number;
}

/**
 * Show the results of this endpoint's evaluations, next to those of a baseline.
 */
export interface ShowEvaluation {
  /**
   * The numbers of simulated users.
   */
  readonly concurrencies: number[];
  /**
   * Another endpoint, or another artifact on this one, to compare with.
   * @default - none
   */
  readonly baseline?: EvaluatedModel;
  /**
   * The name of this endpoint in the comparison.
   * @default - `optimized`
   */
  readonly label?: string;
}

/**
 * Mark a time in every time series graph.
 */
export interface AddDeployment {
  /**
   * The time, in ISO 8601 with a time zone: `2026-11-21T14:00:00Z`. May be a token.
   */
  readonly at: string;
  /**
   * The text next to the mark, for instance a release.
   * @default - `deployment`
   */
  readonly label?: string;
}

/**
 * The compute resources of a training job.
 */
export interface TrainingCompute {
  /**
   * The instance type, for example `ml.g5.12xlarge`.
   * @default - the endpoint's
   */
  readonly instanceType?: string;
  /**
   * Number of instances; each of their accelerators holds the whole model.
   * @default - 1
   */
  readonly instanceCount?: number;
  /**
   * Storage in GB, if the instance type has no disks of its own.
   * @default - 100
   */
  readonly volumeSizeGb?: number;
  /**
   * Whether to use Spot Instances, which cost less and can be interrupted; the job resumes from its last checkpoint.
   * @default - no
   */
  readonly spot?: boolean;
  /**
   * With `spot`, the maximum time to wait for capacity, in addition to the runtime.
   * @default - 86,400 (one day)
   */
  readonly spotWaitSeconds?: number;
  /**
   * How long SageMaker keeps the instances for another job of the same kind (a warm pool, which you pay for); at most 21,600.
   * @default - none
   */
  readonly keepAliveSeconds?: number;
  /**
   * Environment variables of the container, for example `PIP_INDEX_URL` for a mirror in a VPC. The template shows their values, so do not put secrets here.
   * @default - none
   */
  readonly environment?: { [key: string]: string };
}

/**
 * Compilation for inf2, trn1 and trn1n instances. The artifact supports exactly these shapes and this precision.
 */
export interface NeuronCompilation {
  /**
   * Accelerators (NeuronCores on Neuron devices) per copy of the model.
   * @default - all accelerators of the instance
   */
  readonly tensorParallelDegree?: number;
  /**
   * Precision of the weights: fp16, bf16 or fp32.
   * @default - fp16
   */
  readonly dtype?: NeuronCompilationDtype;
  /**
   * Maximum number of requests in a batch.
   * @default - 4
   */
  readonly maximumBatchSize?: number;
  /**
   * The Neuron compiler's `-O` level: 1 compiles fastest, 3 runs fastest.
   * @default - 2
   */
  readonly optimizeLevel?: number;
  /**
   * Maximum tokens of a request, prompt and completion together.
   * @default - 2048
   */
  readonly maximumSequenceLength?: number;
}

/**
 * Compilation to a TensorRT-LLM engine for GPUs. The engine supports only these shapes and this type of GPU.
 */
export interface TensorRtLlmCompilation {
  /**
   * Accelerators (NeuronCores on Neuron devices) per copy of the model.
   * @default - all accelerators of the instance
   */
  readonly tensorParallelDegree?: number;
  /**
   * Maximum tokens of a prompt.
   * @default - 1024
   */
  readonly maximumInputLength?: number;
  /**
   * Maximum tokens of a completion.
   * @default - 512
   */
  readonly maximumOutputLength?: number;
  /**
   * Maximum number of requests in a batch.
   * @default - 64
   */
  readonly maximumBatchSize?: number;
}

/**
 * A KV cache in FP8: twice the tokens in the same memory, without a job. Needs GPUs with FP8.
 */
export interface Fp8KvCache {
  /**
   * Accelerators (NeuronCores on Neuron devices) per copy of the model.
   * @default - all accelerators of the instance
   */
  readonly tensorParallelDegree?: number;
}

/**
 * AWQ: activation-aware quantization of the weights to INT4. Activations are not quantized. For GPUs.
 */
export interface AwqQuantization {
  /**
   * Accelerators (NeuronCores on Neuron devices) per copy of the model.
   * @default - all accelerators of the instance
   */
  readonly tensorParallelDegree?: number;
  /**
   * A ready-made AWQ checkpoint of the model, instead of a job.
   * @default - none
   */
  readonly checkpoint?: Model;
  /**
   * Number of weights that share a scale: 32, 64 or 128.
   * @default - 128
   */
  readonly groupSize?: number;
  /**
   * Names of layers that are not quantized.
   * @default - none
   */
  readonly ignoredLayers?: string[];
}

/**
 * FP8: weights and activations in 8-bit floating point. For GPUs.
 */
export interface Fp8Quantization {
  /**
   * Accelerators (NeuronCores on Neuron devices) per copy of the model.
   * @default - all accelerators of the instance
   */
  readonly tensorParallelDegree?: number;
  /**
   * A ready-made FP8 checkpoint of the model, instead of a job.
   * @default - none
   */
  readonly checkpoint?: Model;
  /**
   * FP8 calibrates the activations' scales on samples; FP8_DYNAMIC computes them at run time.
   * @default - FP8
   */
  readonly scheme?: Fp8QuantizationScheme;
  /**
   * Names of layers that are not quantized.
   * @default - `lmHead`
   */
  readonly ignoredLayers?: string[];
  /**
   * Number of calibration samples.
   * @default - 512
   */
  readonly calibrationSize?: number;
  /**
   * Tokens per sample.
   * @default - 2048
   */
  readonly calibrationLength?: number;
}

/**
 * SmoothQuant: weights and activations in INT8, with activation outliers moved into the weights.
 */
export interface SmoothQuantization {
  /**
   * Accelerators (NeuronCores on Neuron devices) per copy of the model.
   * @default - all accelerators of the instance
   */
  readonly tensorParallelDegree?: number;
  /**
   * A ready-made checkpoint of the model, instead of a job.
   * @default - none
   */
  readonly checkpoint?: Model;
  /**
   * Share of the activations' range that moves into the weights, 0 to 1.
   * @default - 0.8
   */
  readonly alpha?: number;
  /**
   * Whether each token has its own scale.
   * @default - no
   */
  readonly perToken?: boolean;
  /**
   * Whether each channel has its own scale.
   * @default - no
   */
  readonly perChannel?: boolean;
  /**
   * Number of calibration samples.
   * @default - 512
   */
  readonly calibrationSize?: number;
}

/**
 * FP8 with a scale for each block of 128 by 128 weights. Activations are scaled at run time. For GPUs.
 */
export interface Fp8BlockQuantization {
  /**
   * Accelerators (NeuronCores on Neuron devices) per copy of the model.
   * @default - all accelerators of the instance
   */
  readonly tensorParallelDegree?: number;
  /**
   * The job's instance and storage.
   * @default - one instance of the endpoint's type
   */
  readonly compute?: TrainingCompute;
  /**
   * A ready-made checkpoint of the model, instead of a job.
   * @default - none
   */
  readonly checkpoint?: Model;
  /**
   * Names of layers that are not quantized; `re:` starts a regular expression.
   * @default - output layer, embeddings, routers, recurrent layers, and image and audio encoders
   */
  readonly ignoredLayers?: string[];
}

/**
 * FP8 with a scale for each row of weights. Activations are scaled at run time, per token. For GPUs.
 */
export interface Fp8DynamicQuantization {
  /**
   * Accelerators (NeuronCores on Neuron devices) per copy of the model.
   * @default - all accelerators of the instance
   */
  readonly tensorParallelDegree?: number;
  /**
   * The job's instance and storage.
   * @default - one instance of the endpoint's type
   */
  readonly compute?: TrainingCompute;
  /**
   * A ready-made checkpoint of the model, instead of a job.
   * @default - none
   */
  readonly checkpoint?: Model;
  /**
   * Names of layers that are not quantized; `re:` starts a regular expression.
   * @default - output layer, embeddings, routers, recurrent layers, and image and audio encoders
   */
  readonly ignoredLayers?: string[];
}

/**
 * W4A16: weights in INT4, with a scale for each 128 weights. Activations stay in 16 bits. For GPUs.
 */
export interface W4A16Quantization {
  /**
   * Accelerators (NeuronCores on Neuron devices) per copy of the model.
   * @default - all accelerators of the instance
   */
  readonly tensorParallelDegree?: number;
  /**
   * The job's instance and storage.
   * @default - one instance of the endpoint's type
   */
  readonly compute?: TrainingCompute;
  /**
   * A ready-made checkpoint of the model, instead of a job.
   * @default - none
   */
  readonly checkpoint?: Model;
  /**
   * Names of layers that are not quantized; `re:` starts a regular expression.
   * @default - output layer, embeddings, routers, recurrent layers, and image and audio encoders
   */
  readonly ignoredLayers?: string[];
  /**
   * S3 prefix with one or more `*.jsonl` files of samples. A job needs it; https://constructs-optim.dev/medusa/ describes the formats. May be or contain a token.
   * @default - none
   */
  readonly calibrationData?: string;
  /**
   * Maximum number of samples.
   * @default - 512
   */
  readonly calibrationSize?: number;
  /**
   * Maximum tokens per sample.
   * @default - 2048
   */
  readonly calibrationLength?: number;
  /**
   * `gptq` compensates for the rounding errors of earlier weights, `awq` scales the most important weights.
   * @default - `gptq`
   */
  readonly algorithm?: W4A16QuantizationAlgorithm;
}

/**
 * NVFP4: 4-bit floating point with a scale for each 16 weights. Blackwell GPUs compute in NVFP4, others in 16 bits.
 */
export interface Nvfp4Quantization {
  /**
   * Accelerators (NeuronCores on Neuron devices) per copy of the model.
   * @default - all accelerators of the instance
   */
  readonly tensorParallelDegree?: number;
  /**
   * The job's instance and storage.
   * @default - one instance of the endpoint's type
   */
  readonly compute?: TrainingCompute;
  /**
   * A ready-made checkpoint of the model, instead of a job.
   * @default - none
   */
  readonly checkpoint?: Model;
  /**
   * Names of layers that are not quantized; `re:` starts a regular expression.
   * @default - output layer, embeddings, routers, recurrent layers, and image and audio encoders
   */
  readonly ignoredLayers?: string[];
  /**
   * S3 prefix with one or more `*.jsonl` files of samples. A job needs it; https://constructs-optim.dev/medusa/ describes the formats. May be or contain a token.
   * @default - none
   */
  readonly calibrationData?: string;
  /**
   * Maximum number of samples.
   * @default - 512
   */
  readonly calibrationSize?: number;
  /**
   * Maximum tokens per sample.
   * @default - 2048
   */
  readonly calibrationLength?: number;
}

/**
 * MXFP4: 4-bit floating point with a scale for each 32 weights, as in gpt-oss. For GPUs.
 */
export interface Mxfp4Quantization {
  /**
   * Accelerators (NeuronCores on Neuron devices) per copy of the model.
   * @default - all accelerators of the instance
   */
  readonly tensorParallelDegree?: number;
  /**
   * The job's instance and storage.
   * @default - one instance of the endpoint's type
   */
  readonly compute?: TrainingCompute;
  /**
   * A ready-made checkpoint of the model, instead of a job.
   * @default - none
   */
  readonly checkpoint?: Model;
  /**
   * Names of layers that are not quantized; `re:` starts a regular expression.
   * @default - output layer, embeddings, routers, recurrent layers, and image and audio encoders
   */
  readonly ignoredLayers?: string[];
}

/**
 * Shards that the fast model loader streams from S3 directly into accelerator memory. For GPUs.
 */
export interface FastLoadSharding {
  /**
   * Accelerators (NeuronCores on Neuron devices) per copy of the model.
   * @default - all accelerators of the instance
   */
  readonly tensorParallelDegree?: number;
}

/**
 * The draft model that SageMaker provides for a JumpStart model. It needs no job and has no extra cost.
 */
export interface SageMakerDraft {
  /**
   * Accelerators (NeuronCores on Neuron devices) per copy of the model.
   * @default - all accelerators of the instance
   */
  readonly tensorParallelDegree?: number;
  /**
   * Number of draft tokens per step.
   * @default - 4
   */
  readonly speculativeTokens?: number;
}

/**
 * A smaller JumpStart model as the draft model.
 */
export interface JumpStartDraft {
  /**
   * Accelerators (NeuronCores on Neuron devices) per copy of the model.
   * @default - all accelerators of the instance
   */
  readonly tensorParallelDegree?: number;
  /**
   * Number of draft tokens per step.
   * @default - 4
   */
  readonly speculativeTokens?: number;
  /**
   * The draft model's ID, for example `meta-textgeneration-llama-3-2-1b`.
   */
  readonly modelId: string;
  /**
   * The draft model's version.
   * @default - the newest version when the stack is first deployed
   */
  readonly version?: string;
  /**
   * Whether you have read and accept the draft model's own license.
   * @default - no
   */
  readonly acceptEula?: boolean;
}

/**
 * Your own draft model, with the same tokenizer as the model that it drafts for.
 */
export interface CustomDraft {
  /**
   * Accelerators (NeuronCores on Neuron devices) per copy of the model.
   * @default - all accelerators of the instance
   */
  readonly tensorParallelDegree?: number;
  /**
   * Number of draft tokens per step.
   * @default - 4
   */
  readonly speculativeTokens?: number;
  /**
   * The draft model, such as `Qwen/Qwen3-0.6B` on Hugging Face. Set this or `uri`.
   * @default - none
   */
  readonly model?: Model;
  /**
   * S3 prefix of the draft model's uncompressed files; may be or contain a token.
   * @default - none
   */
  readonly uri?: string;
  /**
   * With `uri`, whether SageMaker passes on your acceptance of the license.
   * @default - no
   */
  readonly acceptEula?: boolean;
}

/**
 * EAGLE heads that a job trains on the model, and that draft tokens for it.
 */
export interface EagleHeads {
  /**
   * Accelerators (NeuronCores on Neuron devices) per copy of the model.
   * @default - all accelerators of the instance
   */
  readonly tensorParallelDegree?: number;
  /**
   * S3 prefix of your own prompts, which may contain tokens, or the traffic that an endpoint captured in a day or a month.
   * @default - SageMaker's data
   */
  readonly trainingData?: CapturedTraffic;
  /**
   * Instead of `trainingData`: its S3 URI.
   * @default - `trainingData`
   */
  readonly trainingDataUri?: string;
  /**
   * Number of draft tokens per step.
   * @default - 5
   */
  readonly speculativeTokens?: number;
}

/**
 * Draft tokens that followed the same n-gram earlier in the request. Needs no draft model and no memory.
 */
export interface NgramSpeculation {
  /**
   * Accelerators (NeuronCores on Neuron devices) per copy of the model.
   * @default - all accelerators of the instance
   */
  readonly tensorParallelDegree?: number;
  /**
   * Number of draft tokens per step.
   * @default - 5
   */
  readonly speculativeTokens?: number;
  /**
   * Maximum length of the n-gram to look up, in tokens.
   * @default - 4
   */
  readonly promptLookupMax?: number;
}

/**
 * A published speculator: heads or a small model, trained to draft for exactly this model. Needs no job.
 */
export interface Speculator {
  /**
   * Accelerators (NeuronCores on Neuron devices) per copy of the model.
   * @default - all accelerators of the instance
   */
  readonly tensorParallelDegree?: number;
  /**
   * The speculator, such as `RedHatAI/Qwen3-32B-speculator.eagle3` on Hugging Face.
   */
  readonly model: Model;
  /**
   * The speculator's method: `eagle3`, `eagle`, `dflash`, `dspark`, `medusa`, or `mtp` for a Gemma 4 assistant.
   * @default - the method in the catalog, else the one in its name, else `eagle3`
   */
  readonly method?: SpeculatorMethod;
  /**
   * Number of draft tokens per step.
   * @default - the value in vLLM's recipe for the model, else 3
   */
  readonly speculativeTokens?: number;
}

/**
 * The model's own heads for multi-token prediction (MTP), as in DeepSeek, GLM and Qwen3.5. Needs no job.
 */
export interface MultiTokenPrediction {
  /**
   * Accelerators (NeuronCores on Neuron devices) per copy of the model.
   * @default - all accelerators of the instance
   */
  readonly tensorParallelDegree?: number;
  /**
   * Number of draft tokens per step.
   * @default - the value in vLLM's recipe for the model, else 1, which is best with many concurrent requests
   */
  readonly speculativeTokens?: number;
}

/**
 * Limits on the LoRA adapters that the model's container can load.
 */
export interface Adapters {
  /**
   * Maximum number of adapters in accelerator memory.
   * @default - 4
   */
  readonly maxLoaded?: number;
  /**
   * Maximum number of adapters in host memory, at least `maxLoaded`.
   * @default - the server's default
   */
  readonly maxCached?: number;
  /**
   * The largest rank of an adapter, one of vLLM's values (`config/lora.py`).
   * @default - 64
   */
  readonly maxRank?: number;
}

/**
 * Spread copies evenly over the instances, so that the loss of an instance removes fewer copies.
 */
export interface PlacementSpread {
  /**
   * Maximum difference in copies between Availability Zones, 0 to 100. SageMaker keeps this limit if capacity allows it.
   * @default - 0
   */
  readonly maxZoneImbalance?: number;
}

/**
 * Place copies on as few instances as possible.
 */
export interface PlacementBinpack {
  /**
   * As for `spread`.
   * @default - none
   */
  readonly maxZoneImbalance?: number;
}

/**
 * Route to the instance or copy with the fewest outstanding requests. The default.
 */
export interface RoutingLeastOutstandingRequests {
}

/**
 * Route to a random instance or copy.
 */
export interface RoutingRandom {
}

/**
 * Route requests with the same prompt prefix to the same instance or copy, whose KV cache holds the prefix.
 */
export interface RoutingPrefixAware {
  /**
   * Length of the compared prefix, 1,024 to 65,536: bytes of the body, or characters of the messages with the OpenAI-compatible API.
   * @default - 4,096
   */
  readonly prefixLength?: number;
  /**
   * Number of concurrent requests, 1 to 1,024, at which SageMaker chooses another instance or copy.
   * @default - 64
   */
  readonly concurrencyThreshold?: number;
}

/**
 * Route to an instance or copy whose KV cache holds the start of the prompt, and that is not too busy.
 */
export interface RoutingKvAware {
}

/**
 * Release only instances without a copy.
 */
export interface ScaleInIdleRelease {
}

/**
 * Move copies to fewer instances, as far as their placement allows, and release the others.
 */
export interface ScaleInConsolidation {
  /**
   * Maximum number of instances to release at a time, 1 to 100.
   * @default - 1
   */
  readonly maxStepSize?: number;
  /**
   * Cool-down after the endpoint's last change, in minutes, 5 to 1,440.
   * @default - 20
   */
  readonly cooldownMinutes?: number;
}

/**
 * The settings of one alarm. https://constructs-optim.dev/alarms/ lists the defaults of each alarm.
 */
export interface AlarmSettings {
  /**
   * The threshold, in the alarm's unit (latencies in seconds, shares in percent); https://constructs-optim.dev/alarms/ says whether it is an upper or a lower limit.
   * @default - none
   */
  readonly threshold?: number;
  /**
   * The period over which CloudWatch aggregates values: 10, 20, 30 or a multiple of 60.
   * @default - none
   */
  readonly periodSeconds?: number;
  /**
   * The number of most recent periods to evaluate.
   * @default - none
   */
  readonly evaluationPeriods?: number;
  /**
   * The number of these periods that must breach the threshold.
   * @default - none
   */
  readonly datapointsToAlarm?: number;
  /**
   * With fewer failed requests in a period, the error rate is zero.
   * @default - none
   */
  readonly minimumCount?: number;
  /**
   * Whether the alarm runs its actions; otherwise it only shows its state.
   * @default - yes
   */
  readonly actionsEnabled?: boolean;
}

/**
 * Replace the instances automatically, according to the endpoint's update policy.
 */
export interface SpeculationCureRestart {
  /**
   * Minimum number of hours between two restarts, 1 to 720.
   * @default - 12
   */
  readonly atMostEveryHours?: number;
}

/**
 * Draft fewer tokens per step.
 */
export interface SpeculationCureShorterDrafts {
  /**
   * Number of draft tokens, fewer than the technique's.
   */
  readonly speculativeTokens: number;
}

/**
 * Serve without speculative decoding.
 */
export interface SpeculationCureDraftsOff {
}

/**
 * Train EAGLE heads again, on traffic that the endpoint captured since the last training.
 */
export interface SpeculationCureTrainAnew {
}

/**
 * One step of a step scaling policy: how much to scale while a metric is within bounds.
 */
export interface ScalingStep {
  /**
   * Number of instances or copies to add, or to remove if negative; a percentage with `PercentChangeInCapacity`, the new number with `ExactCapacity`.
   */
  readonly change: number;
  /**
   * The lower bound. A scale-out step needs it, and includes it.
   * @default - none
   */
  readonly lower?: number;
  /**
   * The upper bound. A scale-in step needs it, and includes it.
   * @default - the start of the next step; the last step is unbounded
   */
  readonly upper?: number;
}

/**
 * A comparison of an endpoint's answers with the replaced endpoint's answers to the same prompts.
 */
export interface QualityRequirement {
  /**
   * A JSON Lines file in S3. Each line has `messages`, or `text`, `prompt` or `inputs`, which are sent without a chat template (with SGLang, which supports only chats, as a user message). To embed or classify, it has `text`, one or a list; to rerank, `query` and a list of `documents`. A line can have a `reference` to compare with instead: a completion, or a list of embeddings, scores or labels.
   */
  readonly prompts: string;
  /**
   * The share of completions that must be identical if neither side changes the weights.
   * @default - 0.9, because rounding in half precision sometimes selects another token
   */
  readonly minIdentical?: number;
  /**
   * The maximum mean difference from the baseline's completions, as a share of their words.
   * @default - none
   */
  readonly maxDifference?: number;
  /**
   * For a model that generates no text, the least mean agreement with the baseline: the cosine similarity of embeddings, the share of the pairs of a query's documents in the same order, or the share of the same classes.
   * @default - none
   */
  readonly minAgreement?: number;
  /**
   * Maximum number of tokens of a completion.
   * @default - none
   */
  readonly maxTokens?: number;
  /**
   * Maximum number of prompts to send.
   * @default - none
   */
  readonly mostPrompts?: number;
}

/**
 * The response has content: text, or a tool call.
 */
export interface AnswerCheckAnswered {
}

/**
 * The response is JSON if the request's `responseFormat` requires it.
 */
export interface AnswerCheckJsonValid {
}

/**
 * If production calls tools, the candidate also does, with arguments that match the request's schema.
 */
export interface AnswerCheckToolCalls {
}

/**
 * The response equals the reference answer in an S3 file, for the prompts in that file.
 */
export interface AnswerCheckReference {
  /**
   * The JSON Lines file, with `{"prompt": ..., "answer": ...}` on each line.
   */
  readonly uri: string;
}

/**
 * A Lambda function decides whether each of the two responses is correct.
 */
export interface AnswerCheckJudge {
  /**
   * The function's ARN; may be a token.
   */
  readonly functionArn: string;
}

/**
 * For requests with temperature 0, a share of the pairs has identical texts.
 */
export interface AnswerCheckExactMatch {
  /**
   * The share, 0 to 1.
   */
  readonly atLeast: number;
}

/**
 * For responses with `topLogprobs`, a share of the pairs has the same most likely first token.
 */
export interface AnswerCheckTopToken {
  /**
   * The share, 0 to 1.
   */
  readonly atLeast: number;
}

/**
 * The requests and responses that an endpoint captured.
 */
export interface CapturedTraffic {
  /**
   * S3 prefix of a variant's captures, without a trailing slash; may contain tokens.
   */
  readonly uri: string;
  /**
   * A day or a month in UTC, `2026-11-07` or `2026-11`.
   * @default - all captures, which grow over time
   */
  readonly period?: string;
  /**
   * Whether requests are captured.
   * @default - yes
   */
  readonly requests?: boolean;
  /**
   * Whether responses are captured.
   * @default - yes
   */
  readonly responses?: boolean;
  /**
   * The KMS key that data capture encrypts its files with.
   * @default - none
   */
  readonly encryptionKeyArn?: string;
}

/** Objectives Quality */
export enum ObjectivesQuality {
  /** lossless */
  LOSSLESS = 'lossless',
  /** near-lossless */
  NEAR_LOSSLESS = 'near-lossless',
  /** any */
  ANY = 'any',
}

/** Monitoring Options Alarms */
export enum MonitoringOptionsAlarms {
  /** none */
  NONE = 'none',
}

/** Async Inference Include Responses In */
export enum AsyncInferenceIncludeResponsesIn {
  /** SUCCESS_NOTIFICATION_TOPIC */
  SUCCESS_NOTIFICATION_TOPIC = 'SUCCESS_NOTIFICATION_TOPIC',
  /** ERROR_NOTIFICATION_TOPIC */
  ERROR_NOTIFICATION_TOPIC = 'ERROR_NOTIFICATION_TOPIC',
}

/** Model Huggingface Task */
export enum ModelHuggingfaceTask {
  /** generate */
  GENERATE = 'generate',
  /** embed */
  EMBED = 'embed',
  /** rerank */
  RERANK = 'rerank',
  /** classify */
  CLASSIFY = 'classify',
  /** pool */
  POOL = 'pool',
}

/** Model S3 Task */
export enum ModelS3Task {
  /** generate */
  GENERATE = 'generate',
  /** embed */
  EMBED = 'embed',
  /** rerank */
  RERANK = 'rerank',
  /** classify */
  CLASSIFY = 'classify',
  /** pool */
  POOL = 'pool',
}

/** Fine Tune Method */
export enum FineTuneMethod {
  /** qlora */
  QLORA = 'qlora',
  /** lora */
  LORA = 'lora',
  /** full */
  FULL = 'full',
}

/** Requirements Regression Metrics */
export enum RequirementsRegressionMetrics {
  /** concurrency */
  CONCURRENCY = 'concurrency',
  /** time_to_first_token */
  TIME_TO_FIRST_TOKEN = 'time_to_first_token',
  /** time_to_first_token_p50 */
  TIME_TO_FIRST_TOKEN_P50 = 'time_to_first_token_p50',
  /** time_to_first_token_p90 */
  TIME_TO_FIRST_TOKEN_P90 = 'time_to_first_token_p90',
  /** time_to_first_token_p99 */
  TIME_TO_FIRST_TOKEN_P99 = 'time_to_first_token_p99',
  /** inter_token_latency */
  INTER_TOKEN_LATENCY = 'inter_token_latency',
  /** inter_token_latency_p50 */
  INTER_TOKEN_LATENCY_P50 = 'inter_token_latency_p50',
  /** inter_token_latency_p90 */
  INTER_TOKEN_LATENCY_P90 = 'inter_token_latency_p90',
  /** inter_token_latency_p99 */
  INTER_TOKEN_LATENCY_P99 = 'inter_token_latency_p99',
  /** inter_chunk_latency */
  INTER_CHUNK_LATENCY = 'inter_chunk_latency',
  /** inter_chunk_latency_p50 */
  INTER_CHUNK_LATENCY_P50 = 'inter_chunk_latency_p50',
  /** inter_chunk_latency_p90 */
  INTER_CHUNK_LATENCY_P90 = 'inter_chunk_latency_p90',
  /** inter_chunk_latency_p99 */
  INTER_CHUNK_LATENCY_P99 = 'inter_chunk_latency_p99',
  /** longest_inter_chunk_latency */
  LONGEST_INTER_CHUNK_LATENCY = 'longest_inter_chunk_latency',
  /** longest_inter_chunk_latency_p50 */
  LONGEST_INTER_CHUNK_LATENCY_P50 = 'longest_inter_chunk_latency_p50',
  /** longest_inter_chunk_latency_p90 */
  LONGEST_INTER_CHUNK_LATENCY_P90 = 'longest_inter_chunk_latency_p90',
  /** longest_inter_chunk_latency_p99 */
  LONGEST_INTER_CHUNK_LATENCY_P99 = 'longest_inter_chunk_latency_p99',
  /** client_latency */
  CLIENT_LATENCY = 'client_latency',
  /** client_latency_p50 */
  CLIENT_LATENCY_P50 = 'client_latency_p50',
  /** client_latency_p90 */
  CLIENT_LATENCY_P90 = 'client_latency_p90',
  /** client_latency_p99 */
  CLIENT_LATENCY_P99 = 'client_latency_p99',
  /** input_tokens_per_second */
  INPUT_TOKENS_PER_SECOND = 'input_tokens_per_second',
  /** output_tokens_per_second */
  OUTPUT_TOKENS_PER_SECOND = 'output_tokens_per_second',
  /** requests_per_second */
  REQUESTS_PER_SECOND = 'requests_per_second',
  /** inputs_per_second */
  INPUTS_PER_SECOND = 'inputs_per_second',
  /** goodput */
  GOODPUT = 'goodput',
  /** client_invocations */
  CLIENT_INVOCATIONS = 'client_invocations',
  /** client_invocation_errors */
  CLIENT_INVOCATION_ERRORS = 'client_invocation_errors',
  /** tokenizer_failed */
  TOKENIZER_FAILED = 'tokenizer_failed',
  /** empty_inference_response */
  EMPTY_INFERENCE_RESPONSE = 'empty_inference_response',
  /** total_throughput */
  TOTAL_THROUGHPUT = 'total_throughput',
  /** input_tokens_per_second_per_request */
  INPUT_TOKENS_PER_SECOND_PER_REQUEST = 'input_tokens_per_second_per_request',
  /** output_tokens_per_second_per_request */
  OUTPUT_TOKENS_PER_SECOND_PER_REQUEST = 'output_tokens_per_second_per_request',
  /** input_tokens */
  INPUT_TOKENS = 'input_tokens',
  /** output_tokens */
  OUTPUT_TOKENS = 'output_tokens',
  /** acceptance_length */
  ACCEPTANCE_LENGTH = 'acceptance_length',
  /** drafts */
  DRAFTS = 'drafts',
  /** instance_price_per_hour */
  INSTANCE_PRICE_PER_HOUR = 'instance_price_per_hour',
  /** price_per_million_input_tokens */
  PRICE_PER_MILLION_INPUT_TOKENS = 'price_per_million_input_tokens',
  /** price_per_million_output_tokens */
  PRICE_PER_MILLION_OUTPUT_TOKENS = 'price_per_million_output_tokens',
  /** blended_price_per_million_tokens */
  BLENDED_PRICE_PER_MILLION_TOKENS = 'blended_price_per_million_tokens',
  /** price_per_million_tokens */
  PRICE_PER_MILLION_TOKENS = 'price_per_million_tokens',
  /** price_per_thousand_requests */
  PRICE_PER_THOUSAND_REQUESTS = 'price_per_thousand_requests',
  /** price_per_thousand_good_requests */
  PRICE_PER_THOUSAND_GOOD_REQUESTS = 'price_per_thousand_good_requests',
}

/** Neuron Compilation Dtype */
export enum NeuronCompilationDtype {
  /** fp16 */
  FP16 = 'fp16',
  /** bf16 */
  BF16 = 'bf16',
  /** fp32 */
  FP32 = 'fp32',
}

/** Fp8 Quantization Scheme */
export enum Fp8QuantizationScheme {
  /** FP8 */
  FP8 = 'FP8',
  /** FP8_DYNAMIC */
  FP8_DYNAMIC = 'FP8_DYNAMIC',
}

/** W4 A16 Quantization Algorithm */
export enum W4A16QuantizationAlgorithm {
  /** gptq */
  GPTQ = 'gptq',
  /** awq */
  AWQ = 'awq',
}

/** Speculator Method */
export enum SpeculatorMethod {
  /** eagle3 */
  EAGLE3 = 'eagle3',
  /** eagle */
  EAGLE = 'eagle',
  /** dflash */
  DFLASH = 'dflash',
  /** dspark */
  DSPARK = 'dspark',
  /** medusa */
  MEDUSA = 'medusa',
  /** mtp */
  MTP = 'mtp',
}

/** A metric that SageMaker publishes for a running endpoint. */
export enum EndpointMetric {
  /**
   * Invocations. Requests sent to the endpoint.
   */
  INVOCATIONS = 'invocations',
  /**
   * Invocations per instance or copy. Requests divided by the number of instances of the variant or copies of the inference component.
   */
  INVOCATIONS_PER_COPY = 'invocations_per_copy',
  /**
   * Model latency. Time from SageMaker's request to the model's container until the complete response.
   */
  MODEL_LATENCY = 'model_latency',
  /**
   * Responses of the model. Requests to which the model responded: the number of model latencies.
   */
  RESPONSES = 'responses',
  /**
   * Overhead latency. Time that SageMaker adds: from the client's request until the response, without the model latency.
   */
  OVERHEAD_LATENCY = 'overhead_latency',
  /**
   * Time to first chunk. Time from a streaming request to the first chunk of its response: the live counterpart of the time to first token.
   */
  FIRST_CHUNK_LATENCY = 'first_chunk_latency',
  /**
   * Time to first chunk, model. The model's share of the time to the first chunk.
   */
  FIRST_CHUNK_MODEL_LATENCY = 'first_chunk_model_latency',
  /**
   * Time to first chunk, overhead. SageMaker's share of the time to the first chunk.
   */
  FIRST_CHUNK_OVERHEAD_LATENCY = 'first_chunk_overhead_latency',
  /**
   * Concurrent requests per model copy. Concurrent requests for each copy of the model; published every 10 seconds.
   */
  CONCURRENT_REQUESTS = 'concurrent_requests',
  /**
   * 4xx errors. Requests that returned a 4xx status because of a client error.
   */
  INVOCATION_4XX_ERRORS = 'invocation_4xx_errors',
  /**
   * 5xx errors. Requests that returned a 5xx status because the endpoint failed.
   */
  INVOCATION_5XX_ERRORS = 'invocation_5xx_errors',
  /**
   * Model errors. Requests without a 2xx response of the model's container: 4xx and 5xx statuses, broken connections, malformed responses and timeouts.
   */
  INVOCATION_MODEL_ERRORS = 'invocation_model_errors',
  /**
   * Mid-stream errors. Streaming responses that failed after they started.
   */
  MID_STREAM_ERRORS = 'mid_stream_errors',
  /**
   * Requests without capacity. Requests that failed because the inference component had no copy.
   */
  NO_CAPACITY_FAILURES = 'no_capacity_failures',
  /**
   * Queue without capacity. Whether requests wait in an asynchronous endpoint's queue while it has no instance: 1 or 0.
   */
  BACKLOG_WITHOUT_CAPACITY = 'backlog_without_capacity',
  /**
   * Failures of asynchronous requests. Asynchronous requests that failed for any reason, 4xx statuses included.
   */
  INVOCATION_FAILURES = 'invocation_failures',
  /**
   * Expired requests. Requests that reached their time limit in an asynchronous endpoint's queue.
   */
  EXPIRED_REQUESTS = 'expired_requests',
  /**
   * GPU utilization. Utilization of the GPUs.
   */
  GPU_UTILIZATION = 'gpu_utilization',
  /**
   * GPU memory utilization. Share of the GPUs' memory that is in use. Always high if the container reserves the KV cache at startup.
   */
  GPU_MEMORY_UTILIZATION = 'gpu_memory_utilization',
  /**
   * GPU reservation. Share of the instances' GPUs that inference components reserve.
   */
  GPU_RESERVATION = 'gpu_reservation',
  /**
   * CPU utilization. Utilization of the vCPUs.
   */
  CPU_UTILIZATION = 'cpu_utilization',
  /**
   * CPU reservation. Share of the instances' vCPUs that inference components reserve.
   */
  CPU_RESERVATION = 'cpu_reservation',
  /**
   * Memory utilization. Share of the memory that is in use: of the instance's memory, or of the memory that the inference component reserves.
   */
  MEMORY_UTILIZATION = 'memory_utilization',
  /**
   * Memory reservation. Share of the instances' memory that inference components reserve.
   */
  MEMORY_RESERVATION = 'memory_reservation',
  /**
   * Disk utilization. Share of the instances' disks that is in use.
   */
  DISK_UTILIZATION = 'disk_utilization',
  /**
   * Reports of instances or copies. Reports of CPU utilization in a period. Each instance, or copy of an inference component, sends one every 60 seconds.
   */
  COPY_REPORTS = 'copy_reports',
  /**
   * Reports of instances. Reports of memory utilization in a period. Each instance sends one every 60 seconds.
   */
  INSTANCE_REPORTS = 'instance_reports',
}
