import {
  Annotations, aws_cloudwatch, aws_iam, aws_sagemaker, Fn, IResource, ITaggableV2, Resource, Stack, TagManager, TagType, Token,
} from 'aws-cdk-lib';
import { aws_sagemaker as references } from 'aws-cdk-lib/interfaces';
import { Construct } from 'constructs';
import { EndpointDeclaration, EndpointMetric } from './declaration';
import { Declared } from './declared';
import { idInStack, IncludedTemplate, Source } from './included-template';
import { METRICS, SCHEMA_VERSION } from './members';

/** A served model: an endpoint, an inference component, or an adapter of a component. */
export interface IServedModel extends IResource {
  /** The inference component that requests must name with the endpoint; undefined if a variant serves the model. */
  readonly inferenceComponentName?: string;
  /** The base URL for OpenAI's clients; undefined if the container does not support them. */
  readonly openAiBaseUrl?: string;
  /** The keys of the served artifacts, one for each instance type. */
  readonly artifactKeys: string[];
  /** The bucket of the artifacts; undefined without artifacts. */
  readonly artifactStoreBucket?: string;
  /** The CloudWatch alarms. */
  readonly alarms: aws_cloudwatch.IAlarm[];
  /** Let a principal of the same account invoke the model. */
  grantInvoke(grantee: aws_iam.IGrantable): aws_iam.Grant;
  /** Let a principal of the same account queue requests for an endpoint with `asyncInference`. */
  grantInvokeAsync(grantee: aws_iam.IGrantable): aws_iam.Grant;
  /** A metric that SageMaker publishes, by default with the statistic in https://constructs-optim.dev/metrics/. */
  metric(metric: EndpointMetric, props?: aws_cloudwatch.MetricOptions): aws_cloudwatch.Metric;
  /** Number of requests. */
  metricInvocations(props?: aws_cloudwatch.MetricOptions): aws_cloudwatch.Metric;
  /** Time from SageMaker's request to the model's container until the whole response, in microseconds. */
  metricModelLatency(props?: aws_cloudwatch.MetricOptions): aws_cloudwatch.Metric;
  /** Number of requests that failed in the model's container. */
  metricInvocationModelErrors(props?: aws_cloudwatch.MetricOptions): aws_cloudwatch.Metric;
  /** Utilization of the GPUs, in percent. */
  metricGpuUtilization(props?: aws_cloudwatch.MetricOptions): aws_cloudwatch.Metric;
}

/** An endpoint, with its attributes and components. */
export interface IOptimizedEndpoint extends IServedModel, references.IEndpointRef {
  /** The endpoint's name, for requests. */
  readonly endpointName: string;
  /** The endpoint's ARN. */
  readonly endpointArn: string;
  /** The name of the CloudWatch dashboard. */
  readonly dashboardName: string;
  /** The dashboard's resource. */
  readonly cfnDashboard: aws_cloudwatch.CfnDashboard;
  /** The endpoint's resource. */
  readonly cfnEndpoint: aws_sagemaker.CfnEndpoint;
  /** Return a declared component, such as `Assistant`, or an adapter of it, such as `Assistant/Legal`. */
  component(id: string): IServedModel;
}

/** An endpoint, its techniques, scaling, evaluations and monitoring. */
export interface OptimizedEndpointProps extends EndpointDeclaration {
  /**
   * The command that synthesizes the declaration: a program and its arguments.
   * @default - the environment variable CONSTRUCTS_OPTIM, or the first installed of `constructs-optim`, `uvx` and `pipx`
   */
  readonly command?: string[];
}

/** A file, and the endpoint in it. */
export interface EndpointFileProps {
  /** The path of the file, `endpoint.yaml`. */
  readonly path: string;
  /**
   * The ID of the endpoint in the file.
   * @default - the file's only endpoint
   */
  readonly endpoint?: string;
  /**
   * The values of the file's parameters, by name.
   * @default - their defaults
   */
  readonly parameters?: { [name: string]: any };
  /**
   * The command that synthesizes the file: a program and its arguments.
   * @default - the environment variable CONSTRUCTS_OPTIM, or the first installed of `constructs-optim`, `uvx` and `pipx`
   */
  readonly command?: string[];
}

const INVOKE_ASYNC = 'sagemaker:InvokeEndpointAsync';

/** A served model in an included template. */
abstract class ServedModel extends Resource implements IServedModel {
  public readonly inferenceComponentName?: string;
  public readonly openAiBaseUrl?: string;
  public readonly artifactKeys: string[];
  public readonly artifactStoreBucket?: string;
  public readonly alarms: aws_cloudwatch.IAlarm[];
  /** By their names in METRICS. */
  private readonly dimensions: Record<string, string | undefined>;
  private readonly invocations: { Action: string[]; Condition?: any; Resource: string | string[] }[];

  /** Read the outputs of the template whose names begin with the name that `included` returns. */
  constructor(scope: Construct, id: string, included: (made: Construct) => { template: IncludedTemplate; name: string }) {
    super(scope, id);
    const { template, name } = included(this);
    const output = (of: string) => template.output(`${name}${of}`);
    this.inferenceComponentName = output('InferenceComponentName');
    this.openAiBaseUrl = output('OpenAiBaseUrl');
    const keys = output('ArtifactKeys');
    this.artifactKeys = keys === undefined ? [] : Fn.split(',', keys);
    this.artifactStoreBucket = output('ArtifactStoreBucket');
    this.alarms = (template.resourcesIn(`${name}AlarmNames`) as aws_cloudwatch.CfnAlarm[])
      .map((alarm, index) => aws_cloudwatch.Alarm.fromAlarmArn(this, `Alarm${index + 1}`, alarm.attrArn));
    this.dimensions = {
      EndpointName: template.output(`${template.endpoint}EndpointName`),
      InferenceComponentName: this.inferenceComponentName,
      VariantName: template.output(`${template.endpoint}VariantName`),
    };
    this.invocations = JSON.parse(output('InvokePolicy') ?? '{"Statement":[]}').Statement;
  }

  public grantInvoke(grantee: aws_iam.IGrantable): aws_iam.Grant {
    if (this.isAsynchronous) {
      throw new Error(
        `${this.node.path} is asynchronous, and SageMaker refuses InvokeEndpoint for asynchronous endpoints, so a permission `
        + 'has no effect: use grantInvokeAsync(...)',
      );
    }
    return this.granted(grantee);
  }

  public grantInvokeAsync(grantee: aws_iam.IGrantable): aws_iam.Grant {
    if (!this.isAsynchronous) {
      throw new Error(`${this.node.path} is not asynchronous, because asyncInference is not set: use grantInvoke(...)`);
    }
    return this.granted(grantee);
  }

  private get isAsynchronous(): boolean {
    return this.invocations.some(({ Action }) => Action.includes(INVOKE_ASYNC));
  }

  private granted(grantee: aws_iam.IGrantable): aws_iam.Grant {
    this.requireModel();
    this.checkAccount(grantee.grantPrincipal.principalAccount);
    return this.invocations
      .map(({ Action, Condition, Resource: arns }) => {
        const resourceArns = Array.isArray(arns) ? arns : [arns];
        const grant = aws_iam.Grant.addToPrincipal({ grantee, actions: Action, conditions: Condition, resourceArns });
        if (!grant.success) {
          throw new Error(
            `${this.node.path} cannot grant ${Action.join(', ')} to ${grantee.grantPrincipal}, because no policy can be attached `
            + 'to it and an endpoint has no resource policy for principals. Grant it to a role, user or group',
          );
        }
        return grant;
      })
      .reduce((all, next) => all.combine(next));
  }

  /** Check that the caller is in the endpoint's account, because a request names an endpoint of the caller's account. */
  private checkAccount(caller: string | undefined): void {
    const { account } = this.env;
    if (caller === undefined || Token.isUnresolved(caller) || caller === account) {
      return;
    }
    const own = `a request names an endpoint of the caller's own account. Grant it to a role that account ${caller} assumes`;
    if (!Token.isUnresolved(account)) {
      throw new Error(`${this.node.path} is in account ${account}, but the principal is in account ${caller}: ${own}`);
    }
    const text = `${this.node.path} is granted to a principal of account ${caller}, but its stack has no account: ${own}, `
      + 'or set the account of the stack';
    Annotations.of(this).addWarningV2('constructs-optim:GrantedAccount', text);
  }

  private requireModel(): void {
    if (this.invocations.length === 0) {
      throw new Error(`${this.node.path} has no model of its own: use component(...) for its components`);
    }
  }

  public metric(metric: EndpointMetric, props?: aws_cloudwatch.MetricOptions): aws_cloudwatch.Metric {
    this.requireModel();
    const { statistic, variant, component }: Partial<(typeof METRICS)[string]> = METRICS[metric] ?? {};
    const series = this.inferenceComponentName === undefined ? variant : component;
    if (series === undefined) {
      const served = this.inferenceComponentName === undefined ? 'a variant' : 'an inference component';
      throw new Error(`SageMaker does not publish ${metric} for ${served}, which serves the model of ${this.node.path}`);
    }
    const [namespace, metricName, dimensions] = series;
    const dimensionsMap = Object.fromEntries(dimensions.map((name) => [name, this.dimensions[name]!]));
    return new aws_cloudwatch.Metric({ namespace, metricName, dimensionsMap, statistic, ...props }).attachTo(this);
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

/** A component, or an adapter of one. */
class EndpointComponent extends ServedModel {
  constructor(scope: Construct, id: string, template: IncludedTemplate) {
    const name = `${template.endpoint}${id.replace(/[^A-Za-z0-9]/g, '')}`;
    if (template.output(`${name}InferenceComponentName`) === undefined) {
      throw new Error(`${scope.node.path} declares no component ${id}`);
    }
    super(scope, id.replaceAll('/', '.'), () => ({ template, name }));
  }
}

/** A file's template, included in a stack. */
class IncludedEndpoint extends ServedModel implements IOptimizedEndpoint, ITaggableV2 {
  public readonly cdkTagManager: TagManager;
  public readonly endpointName: string;
  public readonly endpointArn: string;
  public readonly dashboardName: string;
  public readonly cfnDashboard: aws_cloudwatch.CfnDashboard;
  public readonly cfnEndpoint: aws_sagemaker.CfnEndpoint;
  private readonly template: IncludedTemplate;
  private readonly components = new Map<string, IServedModel>();

  constructor(scope: Construct, id: string, source: Source) {
    const tags = new TagManager(TagType.KEY_VALUE, 'Custom::OptimizedEndpoint');
    let template: IncludedTemplate;
    super(scope, id, (made) => {
      template = new IncludedTemplate(made, source, tags);
      return { template, name: template.endpoint };
    });
    this.cdkTagManager = tags;
    this.template = template!;
    const output = (name: string) => this.template.output(`${this.template.endpoint}${name}`)!;
    this.endpointName = output('EndpointName');
    this.endpointArn = output('EndpointArn');
    this.dashboardName = output('DashboardName');
    const resource = (name: string) => this.template.resourcesIn(`${this.template.endpoint}${name}`)[0];
    this.cfnDashboard = resource('DashboardName') as aws_cloudwatch.CfnDashboard;
    this.cfnEndpoint = resource('EndpointName') as aws_sagemaker.CfnEndpoint;
    this.node.defaultChild = this.cfnEndpoint;
  }

  public get endpointRef(): references.EndpointReference {
    return { endpointArn: this.endpointArn };
  }

  public component(id: string): IServedModel {
    const made = this.components.get(id) ?? new EndpointComponent(this, id, this.template);
    this.components.set(id, made);
    return made;
  }
}

/**
 * A SageMaker endpoint that serves an optimized model, with scaling, evaluations, alarms and a dashboard. constructs-optim
 * synthesizes the declaration, and its resources become the stack's own.
 */
export class OptimizedEndpoint extends IncludedEndpoint {
  constructor(scope: Construct, id: string, props: OptimizedEndpointProps) {
    const { command, ...declaration } = props;
    super(scope, id, { ...sourceOf(scope, id, declaration), command });
  }
}

/** A file such as `endpoint.yaml`, whose resources are all included in the stack. The construct is one of its endpoints. */
export class EndpointFile extends IncludedEndpoint {
  constructor(scope: Construct, id: string, props: EndpointFileProps) {
    super(scope, id, props);
  }
}

/** Convert props to the content of a file. */
function sourceOf(scope: Construct, id: string, props: EndpointDeclaration): Source {
  const { account, artifactId, region, stackName } = Stack.of(scope);
  const declared = new Declared();
  const [endpoint, path] = [idInStack(scope, id), [scope.node.path, id].filter((part) => part !== '').join('/')];
  const file = {
    schema: SCHEMA_VERSION,
    stack: Token.isUnresolved(stackName) ? artifactId : stackName,
    account: Token.isUnresolved(account) ? undefined : account,
    region: Token.isUnresolved(region) ? undefined : region,
    parameters: undefined as any,
    endpoints: { [endpoint]: declared.value(props, 'EndpointDeclaration', path) },
  };
  const { parameters, roleNames, values } = declared;
  return { content: JSON.stringify({ ...file, parameters }, undefined, 2), endpoint, parameters: values, roleNames };
}
