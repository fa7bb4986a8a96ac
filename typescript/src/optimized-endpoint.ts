import { aws_cloudwatch, aws_iam, aws_sagemaker, IResource, Resource, Stack, Token } from 'aws-cdk-lib';
import { aws_sagemaker as references } from 'aws-cdk-lib/interfaces';
import { Construct } from 'constructs';
import { EndpointDeclaration, EndpointMetric } from './declaration';
import { Declared } from './declared';
import { idInStack, IncludedTemplate, Source } from './included-template';
import { METRICS } from './members';

/** An endpoint, with what an app uses of it. */
export interface IOptimizedEndpoint extends IResource, references.IEndpointRef {
  /** The endpoint's name, which requests give. */
  readonly endpointName: string;
  /** The endpoint's ARN. */
  readonly endpointArn: string;
  /** The inference component that requests name beside the endpoint; undefined where a variant serves the model. */
  readonly inferenceComponentName?: string;
  /** The base URL of OpenAI's clients; undefined where the endpoint's container does not answer them. */
  readonly openAiBaseUrl?: string;
  /** The keys of the artifacts that are served, separated by commas, one for each instance type; undefined without. */
  readonly artifactKeys?: string;
  /** The bucket of the artifacts; undefined without. */
  readonly artifactStoreBucket?: string;
  /** The CloudWatch dashboard. */
  readonly dashboardName: string;
  /** The CloudWatch alarms. */
  readonly alarms: aws_cloudwatch.IAlarm[];
  /** The resource of the endpoint. */
  readonly cfnEndpoint: aws_sagemaker.CfnEndpoint;
  /** Let a principal invoke the endpoint. */
  grantInvoke(grantee: aws_iam.IGrantable): aws_iam.Grant;
  /** A metric that SageMaker publishes of the endpoint, by default with the statistic that docs/metrics.md has. */
  metric(metric: EndpointMetric, props?: aws_cloudwatch.MetricOptions): aws_cloudwatch.Metric;
  /** Requests that were sent to the endpoint. */
  metricInvocations(props?: aws_cloudwatch.MetricOptions): aws_cloudwatch.Metric;
  /** Time from SageMaker's request to the model's container to its whole response, in microseconds. */
  metricModelLatency(props?: aws_cloudwatch.MetricOptions): aws_cloudwatch.Metric;
  /** Requests that failed in the model's container. */
  metricInvocationModelErrors(props?: aws_cloudwatch.MetricOptions): aws_cloudwatch.Metric;
  /** Utilization of the GPUs, in percent. */
  metricGpuUtilization(props?: aws_cloudwatch.MetricOptions): aws_cloudwatch.Metric;
}

/** Where a file's endpoint is. */
export interface EndpointFileOptions {
  /**
   * The id of the endpoint in the file.
   * @default - the only one
   */
  readonly endpoint?: string;
  /**
   * The values of the file's parameters, by name.
   * @default - their defaults
   */
  readonly parameters?: { [name: string]: any };
  /**
   * The command that synthesizes the file: a program, with arguments or without.
   * @default - that of the environment variable CONSTRUCTS_OPTIM, or the first of these that is there: `constructs-optim`,
   * `uvx`, `pipx`
   */
  readonly command?: string;
}

/** An endpoint, its techniques, scaling, evaluations and monitoring. */
export interface OptimizedEndpointProps extends EndpointDeclaration {
  /**
   * The command that synthesizes the declaration: a program, with arguments or without.
   * @default - that of the environment variable CONSTRUCTS_OPTIM, or the first of these that is there: `constructs-optim`,
   * `uvx`, `pipx`
   */
  readonly command?: string;
}

/** The template of a file, included in a stack. */
class IncludedEndpoint extends Resource implements IOptimizedEndpoint {
  public readonly endpointName: string;
  public readonly endpointArn: string;
  public readonly inferenceComponentName?: string;
  public readonly openAiBaseUrl?: string;
  public readonly artifactKeys?: string;
  public readonly artifactStoreBucket?: string;
  public readonly dashboardName: string;
  public readonly alarms: aws_cloudwatch.IAlarm[];
  public readonly cfnEndpoint: aws_sagemaker.CfnEndpoint;
  private readonly dimensions: Record<string, string | undefined>;
  private readonly invokedArns: string[];
  private readonly invocations: { actions: string[]; isRestricted: boolean }[];

  constructor(scope: Construct, id: string, source: Source) {
    super(scope, id);
    const template = new IncludedTemplate(this, source);
    this.endpointName = template.output('EndpointName')!;
    this.endpointArn = template.output('EndpointArn')!;
    this.inferenceComponentName = template.output('InferenceComponentName');
    this.openAiBaseUrl = template.output('OpenAiBaseUrl');
    this.artifactKeys = template.output('ArtifactKeys');
    this.artifactStoreBucket = template.output('ArtifactStoreBucket');
    this.dashboardName = template.output('DashboardName')!;
    [this.cfnEndpoint] = template.resourcesIn('EndpointName') as aws_sagemaker.CfnEndpoint[];
    this.alarms = (template.resourcesIn('AlarmNames') as aws_cloudwatch.CfnAlarm[])
      .map((alarm, index) => aws_cloudwatch.Alarm.fromAlarmArn(this, `Alarm${index + 1}`, alarm.attrArn));
    this.dimensions = {
      EndpointName: this.endpointName,
      InferenceComponentName: this.inferenceComponentName,
      VariantName: template.output('VariantName'),
    };
    this.invocations = template.statementsIn('InvokePolicy');
    const component = template.output('InferenceComponentArn');
    this.invokedArns = [this.endpointArn, ...(component === undefined ? [] : [component])];
  }

  public get endpointRef(): references.EndpointReference {
    return { endpointArn: this.endpointArn };
  }

  public grantInvoke(grantee: aws_iam.IGrantable): aws_iam.Grant {
    if (this.invocations.length === 0) {
      throw new Error(`${this.node.path} has no model of its own, which could be invoked: its components have outputs of their own`);
    }
    return this.invocations
      .map(({ actions, isRestricted }) => {
        const resourceArns = isRestricted ? this.invokedArns : ['*'];
        return aws_iam.Grant.addToPrincipal({ grantee, actions, resourceArns });
      })
      .reduce((all, next) => all.combine(next));
  }

  public metric(metric: EndpointMetric, props?: aws_cloudwatch.MetricOptions): aws_cloudwatch.Metric {
    const { statistic, variant, component } = METRICS[metric];
    const series = this.inferenceComponentName === undefined ? variant : component;
    if (series === undefined) {
      const served = this.inferenceComponentName === undefined ? 'a variant' : 'an inference component';
      throw new Error(`SageMaker does not publish ${metric} of ${served}, which ${this.node.path} serves its model with`);
    }
    const [namespace, metricName, dimensions] = series;
    const dimensionsMap = Object.fromEntries(dimensions.map((name) => [name, this.dimensions[name]!]));
    return new aws_cloudwatch.Metric({ namespace, metricName, dimensionsMap, statistic, ...props });
  }

  public metricInvocations(props?: aws_cloudwatch.MetricOptions): aws_cloudwatch.Metric {
    return this.metric(EndpointMetric.INVOCATIONS, props);
  }

  public metricModelLatency(props?: aws_cloudwatch.MetricOptions): aws_cloudwatch.Metric {
    return this.metric(EndpointMetric.MODEL_LATENCY, props);
  }

  public metricInvocationModelErrors(props?: aws_cloudwatch.MetricOptions): aws_cloudwatch.Metric {
    return this.metric(EndpointMetric.INVOCATION_MODEL_ERRORS, props);
  }

  public metricGpuUtilization(props?: aws_cloudwatch.MetricOptions): aws_cloudwatch.Metric {
    return this.metric(EndpointMetric.GPU_UTILIZATION, props);
  }
}

/**
 * A SageMaker endpoint that serves a model after its techniques were applied, with its scaling, evaluations, alarms and
 * dashboard. The declaration is synthesized by constructs-optim, and its resources are the stack's own.
 */
export class OptimizedEndpoint extends IncludedEndpoint {
  /** An endpoint of a file, `endpoint.yaml`; all that the file declares is added to the stack. */
  public static fromFile(scope: Construct, id: string, path: string, options: EndpointFileOptions = {}): IOptimizedEndpoint {
    return new IncludedEndpoint(scope, id, { ...options, path });
  }

  constructor(scope: Construct, id: string, props: OptimizedEndpointProps) {
    const { command, ...declaration } = props;
    super(scope, id, { ...sourceOf(scope, id, declaration), command });
  }
}

/** What a file would say for props. */
function sourceOf(scope: Construct, id: string, props: EndpointDeclaration): Source {
  const { account, artifactId, region, stackName } = Stack.of(scope);
  const declared = new Declared();
  const [endpoint, value] = [idInStack(scope, id), declared.value(props, 'EndpointDeclaration')];
  const file = {
    stack: Token.isUnresolved(stackName) ? artifactId : stackName,
    account: Token.isUnresolved(account) ? undefined : account,
    region: Token.isUnresolved(region) ? undefined : region,
    parameters: declared.parameters,
    endpoints: { [endpoint]: value },
  };
  return { content: JSON.stringify(file, undefined, 2), endpoint, parameters: declared.values };
}
