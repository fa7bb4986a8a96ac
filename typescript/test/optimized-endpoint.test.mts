import assert from 'node:assert/strict';
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import {
  App, assertions, Aws, aws_cloudwatch, aws_ec2, aws_iam, aws_kms, aws_s3, aws_sns, CfnElement, CfnParameter, Duration,
  RemovalPolicy, Resource, Size, Stack, Tags,
} from 'aws-cdk-lib';
import { Construct } from 'constructs';
import { EndpointFile, EndpointMetric, FineTuneMethod, MonitoringOptionsAlarms, OptimizedEndpoint } from '../lib/index.js';
import type { OptimizedEndpointProps } from '../lib/index.js';

const COMMAND = `${process.execPath} ${join(import.meta.dirname, 'fake-tool.mjs')}`;
const CHAT: OptimizedEndpointProps = {
  model: { jumpstart: { modelId: 'llama', version: '1.0.0', acceptEula: true } },
  instanceType: 'ml.g5.12xlarge',
};
const { PATH } = process.env;
let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'typescript-'));
  process.env.CONSTRUCTS_OPTIM = `${COMMAND} ${record()}`;
  process.env.CDK_VALIDATION = 'false';
});

afterEach(() => {
  process.env.PATH = PATH;
});

function newStack(name = 'My', props = {}): Stack {
  return new Stack(new App({ outdir: join(folder, 'out') }), name, props);
}

function record(): string {
  return join(folder, 'record.json');
}

function recorded(): any {
  return JSON.parse(readFileSync(record(), 'utf-8'));
}

function declared(props: OptimizedEndpointProps, stack = newStack()): any {
  new OptimizedEndpoint(stack, 'Chat', props);
  return JSON.parse(recorded().input);
}

function templateOf(stack: Stack): any {
  return assertions.Template.fromStack(stack).toJSON();
}

test('props are written as a file has them', () => {
  const file = declared({
    ...CHAT,
    environment: { HF_TOKEN: 'x', myKey: 'y' },
    techniques: [
      { quantization: { awq: { groupSize: 64 } } },
      { fineTune: { trainingData: 's3://data/', method: FineTuneMethod.LORA, hyperparameters: { learningRate: 1 } } },
    ],
    variant: { routing: { prefixAware: {} } },
    components: { MyModel: { model: { s3: { uri: 's3://models/' } }, memory: Size.gibibytes(24) } },
    updatePolicy: { canary: { percent: 50, bakeTime: Duration.minutes(15) } },
    monitoring: { alarms: { latency: { threshold: 20 }, errorRateEnabled: false } },
    removalPolicy: RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
  });
  assert.deepEqual(file, {
    schema: 1,
    stack: 'My',
    parameters: {},
    endpoints: {
      Chat: {
        model: { jumpstart: { model_id: 'llama', version: '1.0.0', accept_eula: true } },
        instance_type: 'ml.g5.12xlarge',
        environment: { HF_TOKEN: 'x', myKey: 'y' },
        techniques: [
          { quantization: { awq: { group_size: 64 } } },
          { fine_tune: { training_data: 's3://data/', method: 'lora', hyperparameters: { learningRate: 1 } } },
        ],
        variant: { routing: { prefix_aware: {} } },
        components: { MyModel: { model: { s3: { uri: 's3://models/' } }, memory: '24576MiB' } },
        update_policy: { canary: { percent: 50, bake_time: '900s' } },
        monitoring: { alarms: { latency: { threshold: 20 }, error_rate: false } },
        removal_policy: 'retain_on_update_or_delete',
      },
    },
  });
});

test('constructs that exist are names and ARNs', () => {
  const stack = newStack('My', { env: { account: '111122223333', region: 'us-west-2' } });
  const role = 'arn:aws:iam::111122223333:role/models';
  const key = 'arn:aws:kms:us-west-2:111122223333:key/0a1b2c3d-1111-2222-3333-444455556666';
  const file = declared({
    ...CHAT,
    role: aws_iam.Role.fromRoleArn(stack, 'Role', role),
    encryptionKey: aws_kms.Key.fromKeyArn(stack, 'Key', key),
    dataCapture: { bucket: aws_s3.Bucket.fromBucketName(stack, 'Captures', 'captures') },
    network: {
      vpc: aws_ec2.Vpc.fromVpcAttributes(stack, 'Vpc', {
        vpcId: 'vpc-1', availabilityZones: ['a', 'b'], privateSubnetIds: ['subnet-1', 'subnet-2'],
      }),
    },
  }, stack);
  assert.deepEqual([file.account, file.region], ['111122223333', 'us-west-2']);
  const { role: written, encryption_key, data_capture, network } = file.endpoints.Chat;
  assert.deepEqual([written, encryption_key, data_capture.bucket], [role, key, 'captures']);
  assert.deepEqual(network, { vpc: { vpc_id: 'vpc-1', subnet_ids: ['subnet-1', 'subnet-2'] } });
});

test('what the deployment knows is a parameter of the template, and the app has its value', () => {
  const stack = newStack();
  const bucket = new aws_s3.Bucket(stack, 'Data');
  const role = new aws_iam.Role(stack, 'Role', { assumedBy: new aws_iam.ServicePrincipal('sagemaker.amazonaws.com') });
  const topic = new aws_sns.Topic(stack, 'Pages');
  const count = new CfnParameter(stack, 'Count', { type: 'Number' });
  const file = declared({
    ...CHAT,
    dataCapture: { bucket },
    role,
    model: { s3: { uri: bucket.s3UrlForObject('models/') } },
    monitoring: { alarmActions: [topic] },
    variant: { initialInstanceCount: count.valueAsNumber },
  }, stack);
  const endpoint = file.endpoints.Chat;
  assert.equal(endpoint.data_capture.bucket, '${Token1}');
  assert.equal(endpoint.role, 'arn:${Token2}:iam::${Token3}:role/${Token4}');
  assert.equal(endpoint.model.s3.uri, 's3://${Token1}/models/');
  assert.equal(endpoint.variant.initial_instance_count, '${Token6}');
  const types = Object.values(file.parameters).map(({ type }: any) => type);
  assert.deepEqual(types, ['String', 'String', 'String', 'String', 'String', 'Number']);
  const arn = { 'Fn::GetAtt': [idOf(role), 'Arn'] };
  assert.deepEqual(templateOf(stack).Resources.ChatGiven6C7D8E9F.Properties.Parameters, [
    { Ref: idOf(bucket) },
    { Ref: 'AWS::Partition' },
    { 'Fn::Select': [4, { 'Fn::Split': [':', arn] }] },
    { 'Fn::Select': [1, { 'Fn::Split': [':role/', arn] }] },
    { Ref: idOf(topic) },
    { Ref: 'Count' },
  ]);
});

test('policies name a role by its name, which its path is no part of', () => {
  const stack = newStack();
  const assumedBy = new aws_iam.ServicePrincipal('sagemaker.amazonaws.com');
  const role = new aws_iam.Role(stack, 'Role', { assumedBy, path: '/models/' });
  new OptimizedEndpoint(stack, 'Chat', { ...CHAT, role, jobs: { role } });
  assert.deepEqual(templateOf(stack).Resources.ChatPolicy8D9E0F1A.Properties.Roles, [{ Ref: idOf(role) }]);
  const named = aws_iam.Role.fromRoleName(stack, 'Named', 'models');
  assert.match(declared({ ...CHAT, role: named }, newStack()).endpoints.Chat.role, /:role\/models$/);
});

test('the key of a bucket is given with it', () => {
  const stack = newStack();
  const encryptionKey = new aws_kms.Key(stack, 'Key');
  const bucket = new aws_s3.Bucket(stack, 'Data', { encryptionKey });
  const other = new aws_kms.Key(stack, 'Other');
  const { Chat } = declared({
    ...CHAT,
    dataCapture: { bucket },
    asyncInference: { bucket, encryptionKey: other },
    artifactStore: { fromBucket: { bucket } },
    variant: { coreDumps: { bucket } },
  }, stack).endpoints;
  const keys = [Chat.data_capture, Chat.artifact_store.from_bucket, Chat.variant.core_dumps].map((each) => each.encryption_key);
  assert.deepEqual(keys, ['${Token2}', '${Token2}', '${Token2}']);
  assert.equal(Chat.async_inference.encryption_key, '${Token3}');
});

test('a VPC without NAT has its isolated subnets', () => {
  const stack = newStack();
  const subnetConfiguration = [{ name: 'Isolated', subnetType: aws_ec2.SubnetType.PRIVATE_ISOLATED }];
  const vpc = new aws_ec2.Vpc(stack, 'Vpc', { natGateways: 0, subnetConfiguration });
  assert.equal(declared({ ...CHAT, network: { vpc } }, stack).endpoints.Chat.network.vpc.subnet_ids.length, 2);
});

test('text that looks like a reference is text', () => {
  const stack = newStack();
  const bucket = new aws_s3.Bucket(stack, 'Data');
  const environment = { A: 'Hello ${name}', B: `$${bucket.bucketName}`, C: `\${x}${bucket.bucketName}` };
  const file = declared({ ...CHAT, environment }, stack);
  assert.deepEqual(file.endpoints.Chat.environment, { A: 'Hello $${name}', B: '${Token1}', C: '$${x}${Token2}' });
  const [first] = templateOf(stack).Resources.ChatGiven6C7D8E9F.Properties.Parameters;
  assert.deepEqual(first, { 'Fn::Join': ['', ['$', { Ref: idOf(bucket) }]] });
});

test('what only the deployment knows is refused where a file has text, by the name of the prop', () => {
  const stack = newStack();
  const bakeTime = Duration.seconds(new CfnParameter(stack, 'Bake', { type: 'Number' }).valueAsNumber);
  const updatePolicy = { canary: { percent: 50, bakeTime } };
  assert.throws(() => declared({ ...CHAT, updatePolicy }, stack), /^Error: My\/Chat\.updatePolicy\.canary\.bakeTime: .* token/);
  const both = { ...CHAT, inferenceComponent: {}, inferenceComponentEnabled: true };
  assert.throws(() => declared(both), /My\/Chat\.inferenceComponentEnabled sets the same setting a second time/);
  assert.equal(declared({ ...CHAT, monitoring: { alarmsPreset: MonitoringOptionsAlarms.NONE } }).endpoints.Chat.monitoring.alarms, 'none');
});

for (const [props, message] of [
  [{ dataCapture: { bucket: 'x' } }, "dataCapture.bucket is 'x', but takes aws_s3.IBucket"],
  [{ encryptionKey: 'alias/chat' }, "encryptionKey is 'alias/chat', but takes aws_kms.IKey"],
  [{ network: { vpc: null } }, 'network.vpc is null, but takes aws_ec2.IVpc'],
  [{ role: 'models' }, "role is 'models', but takes aws_iam.IRole"],
  [{ removalPolicy: 1 }, 'removalPolicy is 1, but takes RemovalPolicy'],
  [{ updatePolicy: { canary: { percent: 50, bakeTime: 15 } } }, 'updatePolicy.canary.bakeTime is 15, but takes Duration'],
  [{ monitoring: { alarmActions: 'x' } }, "monitoring.alarmActions is 'x', but takes a list of aws_sns.ITopic"],
  [{ monitoring: { alarmActions: [Size.mebibytes(1)] } }, 'monitoring.alarmActions[0] is of the class Size, but takes aws_sns.ITopic'],
  [{ artifactStore: Duration.days(1) }, 'artifactStore is of the class Duration, but takes ExistingStore'],
  [{ environment: { A: Size.mebibytes(1) } }, 'environment.A is of the class Size, but takes text, a number or a Boolean'],
  [{ techniques: { quantization: { awq: {} } } }, 'techniques is { quantization: { awq: {} } }, but takes a list of Technique'],
] as const) {
  test(`a value of another type is refused: ${message}`, () => {
    const expected = { message: `My/Chat.${message}` };
    assert.throws(() => declared({ ...CHAT, ...props } as unknown as OptimizedEndpointProps), expected);
  });
}

test('latencies of objectives are durations, to the fraction of a millisecond', () => {
  const objectives = {
    inputTokens: 1000, outputTokens: 200, timeToFirstToken: Duration.seconds(2), interTokenLatency: Duration.seconds(0.0125),
  };
  assert.deepEqual(declared({ ...CHAT, objectives }).endpoints.Chat.objectives, {
    input_tokens: 1000, output_tokens: 200, time_to_first_token: '2000ms', inter_token_latency: '12.5ms',
  });
});

function idOf(resource: Resource): string {
  return Stack.of(resource).getLogicalId(resource.node.defaultChild as CfnElement);
}

test('a list of unknown length is refused', () => {
  const stack = newStack();
  const zones = new CfnParameter(stack, 'Layers', { type: 'CommaDelimitedList' }).valueAsList;
  const techniques = [{ quantization: { awq: { ignoredLayers: zones } } }];
  assert.throws(() => declared({ ...CHAT, techniques }, stack), /the number of items must be known at synthesis/);
});

test('the template is in the stack, under ids of its own also where text has them', () => {
  const stack = newStack();
  new OptimizedEndpoint(stack, 'Chat', CHAT);
  new OptimizedEndpoint(new Construct(stack, 'Search-2'), 'Chat', CHAT);
  const { Resources, Mappings, Outputs, Parameters } = templateOf(stack);
  for (const prefix of ['Chat', 'Search2Chat']) {
    const { Code, Description } = Resources[`${prefix}Function28394A5B`].Properties;
    assert.equal(Description, `looks ${prefix}0A1B2C3D up, and not X${prefix}0A1B2C3D`);
    assert.equal(Resources[`${prefix}Logs7E8F9A0B`].Properties.LogGroupName, `/aws/vendedlogs/states/my-${prefix}`);
    assert.match(Code.S3Bucket['Fn::Sub'], /^cdk-hnb659fds-assets-/);
    assert.match(Code.S3Key, /^[0-9a-f]{64}\.zip$/);
    assert.ok(Mappings[`${prefix}Accounts`]);
  }
  assert.deepEqual(Object.keys(Parameters), ['BootstrapVersion']);
  assert.deepEqual(Object.keys(Outputs), ['ChatDeclared', 'Search2ChatDeclared'], 'what the tool adds is read, and not kept');
  assert.throws(
    () => new OptimizedEndpoint(stack, 'Search2Chat', CHAT),
    /^Error: My\/Search2Chat: its logical IDs .* so do those of My\/Search-2\/Chat: give it another ID/,
  );
  assert.throws(() => new OptimizedEndpoint(stack, '模型', CHAT), /My\/模型: .* its ID has no ASCII letter/);
});

test('an id that others begin with takes none of their logical ids', () => {
  const stack = newStack();
  new OptimizedEndpoint(stack, 'Func', CHAT);
  new OptimizedEndpoint(stack, 'Function', CHAT);
  const { Resources } = templateOf(stack);
  assert.ok(Resources.FuncFunction28394A5B);
  assert.ok(Resources.Function28394A5B);
});

test('tags of the app are where handlers tag, and nothing stands for them elsewhere', () => {
  const stack = newStack();
  new OptimizedEndpoint(stack, 'Chat', CHAT);
  new EndpointFile(stack, 'File', { path: 'endpoint.yaml' });
  const { Tags: none, Text } = templateOf(newStackWith('Untagged')).Resources.ChatGiven6C7D8E9F.Properties;
  assert.deepEqual([none, Text['Fn::Join'][1].slice(1).join('')], [undefined, ' and {"Tags":[]}']);
  Tags.of(stack).add('team', 'nlp');
  Tags.of(stack).add('stage', 'prod');
  const { Resources } = templateOf(stack);
  const tags = [{ Key: 'stage', Value: 'prod' }, { Key: 'team', Value: 'nlp' }];
  assert.deepEqual(Resources.ChatGiven6C7D8E9F.Properties.Tags, tags);
  assert.deepEqual(Resources.ChatSlow4E5F6071.Properties.Tags, tags);
  assert.deepEqual(Resources.FileGiven6C7D8E9F.Properties.Tags, [{ Key: 'level', Value: { Ref: 'FileLogLevel' } }, ...tags]);
  const [, ...text] = Resources.ChatGiven6C7D8E9F.Properties.Text['Fn::Join'][1];
  assert.equal(text.join(''), ` and {"Tags":${JSON.stringify(tags)}}`);
  assert.doesNotMatch(JSON.stringify(Resources), /constructs-optim:tags/);
});

function newStackWith(name: string): Stack {
  const stack = newStack(name);
  new OptimizedEndpoint(stack, 'Chat', CHAT);
  return stack;
}

test('a file has its own ids, the name and the environment of the stack, and the endpoint that is named', () => {
  const stack = newStack('My', { env: { account: '111122223333', region: 'us-west-2' } });
  const chat = new EndpointFile(stack, 'Mine', { path: 'endpoint.yaml', parameters: { LogLevel: 'debug' } });
  const { arguments: given } = recorded();
  assert.deepEqual(given.slice(0, 2), ['synth', 'endpoint.yaml']);
  assert.deepEqual(given.slice(-8, -2), ['--stack-name', 'My-Mine', '--account', '111122223333', '--region', 'us-west-2']);
  assert.deepEqual(stack.resolve(chat.endpointArn), { Ref: 'MineChat0A1B2C3D' });
  new EndpointFile(stack, 'Other', { path: 'endpoint.yaml' });
  const { Parameters, Resources } = templateOf(stack);
  assert.deepEqual(Object.keys(Parameters), ['OtherLogLevel', 'BootstrapVersion']);
  assert.deepEqual(Resources.MineGiven6C7D8E9F.Properties.Parameters, ['debug']);
  assert.deepEqual(Resources.OtherGiven6C7D8E9F.Properties.Parameters, [{ Ref: 'OtherLogLevel' }]);
  assert.throws(
    () => new EndpointFile(newStack(), 'Mine', { path: 'endpoint.yaml', endpoint: 'Search' }),
    /^Error: My\/Mine: endpoint is Search, but endpoint.yaml declares Chat: name one of them$/,
  );
  assert.throws(
    () => new EndpointFile(newStack(), 'Mine', { path: 'endpoint.yaml', parameters: { Level: 'debug' } }),
    /My\/Mine: parameters has Level, but the file has LogLevel/,
  );
});

test('callers, metrics, alarms and references work as those of any construct', () => {
  const stack = newStack();
  const chat = new OptimizedEndpoint(stack, 'Chat', CHAT);
  chat.grantInvoke(new aws_iam.Role(stack, 'Caller', { assumedBy: new aws_iam.AccountRootPrincipal() }));
  chat.metric(EndpointMetric.FIRST_CHUNK_LATENCY).createAlarm(stack, 'Slow', { evaluationPeriods: 1, threshold: 1 });
  const arn = { Ref: 'Chat0A1B2C3D' };
  const template = assertions.Template.fromStack(stack);
  template.hasResourceProperties('AWS::IAM::Policy', {
    PolicyDocument: {
      Statement: [{
        Action: 'sagemaker:InvokeEndpoint', Condition: { Bool: { 'aws:SecureTransport': 'true' } }, Effect: 'Allow', Resource: arn,
      }],
    },
  });
  template.hasResourceProperties('AWS::CloudWatch::Alarm', {
    Dimensions: [
      { Name: 'EndpointName', Value: { 'Fn::GetAtt': ['Chat0A1B2C3D', 'EndpointName'] } },
      { Name: 'VariantName', Value: 'AllTraffic' },
    ],
    MetricName: 'FirstChunkLatency',
    Statistic: 'Average',
  });
  assert.deepEqual(stack.resolve(chat.endpointRef), { endpointArn: arn });
  assert.deepEqual(chat.alarms.map((alarm) => stack.resolve(alarm.alarmArn)), [
    { 'Fn::GetAtt': ['ChatSlow4E5F6071', 'Arn'] },
  ]);
  assert.equal(chat.cfnEndpoint.endpointName, 'chat');
  assert.equal(chat.openAiBaseUrl, undefined);
  assert.throws(() => chat.metric(EndpointMetric.GPU_RESERVATION), /does not publish gpu_reservation for a variant/);
  assert.throws(() => chat.metric('nope' as EndpointMetric), /does not publish nope for a variant/);
});

test('outputs are text', () => {
  const chat = new OptimizedEndpoint(newStack(), 'Chat', CHAT);
  for (const value of [chat.endpointName, chat.endpointArn, chat.dashboardName]) {
    assert.equal(typeof value, 'string');
  }
  assert.equal(chat.endpointName.startsWith('x'), false);
});

test('a dashboard of the app shows metrics and alarms of the endpoint', () => {
  const stack = newStack();
  const chat = new OptimizedEndpoint(stack, 'Chat', CHAT);
  const dashboard = new aws_cloudwatch.Dashboard(stack, 'Team');
  dashboard.addWidgets(
    new aws_cloudwatch.GraphWidget({ left: [chat.metricInvocations()], right: [chat.metricModelLatency()] }),
    new aws_cloudwatch.AlarmStatusWidget({ alarms: chat.alarms }),
  );
  assert.deepEqual(stack.resolve(chat.dashboardName), { Ref: 'ChatDashboard2B3C4D5E' });
  assert.deepEqual(stack.resolve(chat.cfnDashboard.ref), { Ref: 'ChatDashboard2B3C4D5E' });
  chat.cfnDashboard.addPropertyOverride('DashboardName', 'chat');
  const { Resources } = templateOf(stack);
  assert.equal(Resources.ChatDashboard2B3C4D5E.Properties.DashboardName, 'chat');
  const body = JSON.stringify(Resources[idOf(dashboard)].Properties.DashboardBody);
  for (const part of ['Invocations', 'ModelLatency', 'ChatSlow4E5F6071']) {
    assert.ok(body.includes(part), part);
  }
});

test('keys of artifacts are a list, also where only the deployment knows them', () => {
  const stack = newStack();
  const keys = (id: string, environment = {}) => new OptimizedEndpoint(stack, id, { ...CHAT, environment }).artifactKeys;
  assert.deepEqual(keys('None'), []);
  assert.deepEqual(keys('Known', { ARTIFACTS: 'a,b' }), ['a', 'b']);
  const joined = { 'Fn::Join': [',', [{ Ref: 'AWS::StackName' }, 'b']] };
  assert.deepEqual(stack.resolve(keys('Later', { ARTIFACTS: Aws.STACK_NAME })), { 'Fn::Split': [',', joined] });
});

test('metrics know where the endpoint is, and its construct is that of its resource', () => {
  const env = { account: '111122223333', region: 'us-west-2' };
  const stack = newStack('My', { env });
  const chat = new OptimizedEndpoint(stack, 'Chat', CHAT);
  const { account, region } = chat.metricInvocations();
  assert.deepEqual({ account, region }, env);
  chat.applyRemovalPolicy(RemovalPolicy.RETAIN);
  assert.equal(templateOf(stack).Resources.Chat0A1B2C3D.DeletionPolicy, 'Retain');
});

test('callers that no policy reaches are refused', () => {
  const env = { account: '111122223333', region: 'us-west-2' };
  const stack = newStack('My', { env });
  const chat = new OptimizedEndpoint(stack, 'Chat', CHAT);
  const service = new aws_iam.ServicePrincipal('lambda.amazonaws.com');
  assert.throws(() => chat.grantInvoke(service), /My\/Chat cannot grant sagemaker:InvokeEndpoint to .*, because no policy can be attached/);
  const other = aws_iam.Role.fromRoleArn(stack, 'Other', 'arn:aws:iam::999999999999:role/x');
  assert.throws(() => chat.grantInvoke(other), /My\/Chat is in account 111122223333, but the principal is in account 999999999999/);
  assert.throws(() => chat.grantInvokeAsync(other), /My\/Chat is not asynchronous/);
  const queue = new OptimizedEndpoint(stack, 'Queue', { ...CHAT, environment: { ACTION: 'sagemaker:InvokeEndpointAsync' } });
  const caller = new aws_iam.Role(stack, 'Caller', { assumedBy: service });
  assert.throws(() => queue.grantInvoke(caller), /My\/Queue is asynchronous/);
  assert.ok(queue.grantInvokeAsync(caller).success);
});

test('components have names, callers, metrics and alarms of their own', () => {
  const stack = newStack();
  const shared = new OptimizedEndpoint(stack, 'Chat', { ...CHAT, environment: { COMPONENTS: 'yes' } });
  const assistant = shared.component('Assistant');
  assert.equal(assistant, shared.component('Assistant'));
  assert.equal(assistant.inferenceComponentName, 'assistant');
  assert.equal(assistant.alarms.length, 1);
  assert.deepEqual(assistant.metricInvocations().dimensions, { InferenceComponentName: 'assistant' });
  assistant.grantInvoke(new aws_iam.Role(stack, 'Caller', { assumedBy: new aws_iam.AccountRootPrincipal() }));
  assertions.Template.fromStack(stack).hasResourceProperties('AWS::IAM::Policy', {
    PolicyDocument: { Statement: [{ Resource: [{ Ref: 'Chat0A1B2C3D' }, { 'Fn::GetAtt': ['ChatGiven6C7D8E9F', 'Component'] }] }] },
  });
  assert.throws(() => shared.metric(EndpointMetric.MODEL_LATENCY), /My\/Chat has no model of its own: use component\(\.\.\.\)/);
  assert.throws(() => shared.component('Writer'), /My\/Chat declares no component Writer/);
});

test('what the tool warns of is a warning of the construct, by its own id', () => {
  const stack = newStack();
  new OptimizedEndpoint(stack, 'Chat', { ...CHAT, environment: { VERSION: '0.0.9' } });
  const warnings = assertions.Annotations.fromStack(stack);
  warnings.hasWarning('/My/Chat', 'look at the instanceType [ack: constructs-optim:OPT013]');
  warnings.hasWarning('/My/Chat', 'look at this [ack: constructs-optim:Synth]');
  const version = 'constructs-optim 0\\.0\\.9 synthesizes the endpoint, .* TypeScript is [\\d.]+, .*\\[ack: constructs-optim:Version\\]';
  warnings.hasWarning('/My/Chat', assertions.Match.stringLikeRegexp(version));
});

test('what the tool wrote before is not made again, and is in the folder of each app', () => {
  const withBucket = (stack: Stack) => ({ ...CHAT, dataCapture: { bucket: new aws_s3.Bucket(stack, 'Data') } });
  const first = newStack();
  new OptimizedEndpoint(first, 'Chat', withBucket(first));
  rmSync(record());
  const stack = newStack();
  new OptimizedEndpoint(stack, 'Chat', withBucket(stack));
  assert.equal(existsSync(record()), false);
  assert.ok(templateOf(stack).Resources.Chat0A1B2C3D);
  new OptimizedEndpoint(stack, 'Other', CHAT);
  assert.equal(existsSync(record()), true);
});

/** A program that prints, and ends with a status. */
function ending(status: string, ...printed: string[]): string[] {
  return ['/bin/sh', '-c', `${printed.map((line) => `echo '${line}' >&2; `).join('')}${status}`];
}

test('what the tool refuses is the message of the error, in terms of props', () => {
  const line = 'OPT107 standard input:14:9 endpoints.Chat.encryption_key[0] = 1';
  const command = ending('exit 2', line, '    see:        docs/endpoint-file.md');
  assert.throws(() => new OptimizedEndpoint(newStack(), 'Chat', { ...CHAT, command }), (error: Error) => {
    assert.match(error.message, /^My\/Chat: \/bin\/sh .* refuses the declaration:\n/);
    assert.match(error.message, /^OPT107 My\/Chat\.encryptionKey\[0\] = 1$/m);
    assert.match(error.message, /see: {8}https:\/\/constructs-optim\.dev\/endpoint-file\/$/);
    return true;
  });
});

test('values in a message of the tool are as TypeScript writes them', () => {
  const line = 'OPT001 endpoints.Chat.model = {"accept_eula": True, "role": None}; None of these works';
  const command = ending('exit 2', quoted(line));
  const message = /OPT001 My\/Chat\.model = \{'acceptEula': true, 'role': undefined\}; None of these works$/;
  assert.throws(() => new OptimizedEndpoint(newStack(), 'Chat', { ...CHAT, command }), message);
});

/** Return a line with ' in place of ", in the shell's quotes. */
function quoted(line: string): string {
  return line.replaceAll('"', "'\\''");
}

test('what the tool says of its options is said of the stack, without its usage', () => {
  const finding = 'Error: Invalid value: endpoint.yaml declares region eu-west-1, and --region is us-west-2: remove one';
  const command = ending('exit 2', 'Usage: constructs-optim synth [OPTIONS] FILE', '', finding);
  assert.throws(() => new EndpointFile(newStack(), 'Chat', { path: 'endpoint.yaml', command }), (error: Error) => {
    const [first, ...others] = error.message.split('\n');
    assert.match(first, /^My\/Chat: .* refuses the declaration:$/);
    assert.deepEqual(others, ["endpoint.yaml declares region eu-west-1, and the stack's region is us-west-2: remove one"]);
    return true;
  });
});

test('a folder is not read as a file', () => {
  const command = ending('exit 2', quoted('OPT090 . = "."'));
  assert.throws(() => new EndpointFile(newStack(), 'Chat', { path: '.', command }), / refuses the declaration:\nOPT090 \. = '\.'$/);
});

test('an empty command is not set', () => {
  process.env.CONSTRUCTS_OPTIM = ' ';
  process.env.PATH = programs('constructs-optim');
  new OptimizedEndpoint(newStack(), 'Chat', { ...CHAT, command: [] });
  assert.match(recorded().arguments.join(' '), /^constructs-optim synth -/);
});

for (const [how, command, message] of [
  ['fails', ending('exit 1', 'no network'), / failed with status 1:\nno network$/],
  ['takes other arguments', ending('exit 2', 'Usage: tool [OPTIONS]'), / failed with status 2:\nUsage/],
  ['is killed', ending('kill -9 $$'), / was ended by SIGKILL$/],
  ['prints something else', ending('exit 0; echo {}'), /printed no list of outputs/],
  ['is not there', ['/no/such/tool'], /\/no\/such\/tool was not found, and the prop command names it$/],
] as const) {
  test(`a command that ${how} is what the error is about`, () => {
    assert.throws(() => new OptimizedEndpoint(newStack(), 'Chat', { ...CHAT, command: [...command] }), message);
  });
}

function programs(...names: string[]): string {
  const bin = mkdtempSync(join(folder, 'bin-'));
  for (const name of names) {
    writeFileSync(join(bin, name), `#!/bin/sh\nexec ${COMMAND} ${record()} ${name} "$@"\n`);
    chmodSync(join(bin, name), 0o755);
  }
  return bin;
}

for (const [there, asked] of [
  [['constructs-optim', 'uvx', 'pipx'], /^constructs-optim synth -/],
  [['uvx', 'pipx'], /^uvx --from constructs-optim\[cli\]==[\d.]+ constructs-optim synth -/],
  [['pipx'], /^pipx run --spec constructs-optim\[cli\]==[\d.]+ constructs-optim synth -/],
] as const) {
  test(`with ${there.join(', ')} on the PATH, ${there[0]} is run`, () => {
    delete process.env.CONSTRUCTS_OPTIM;
    delete process.env.JSII_NODE;
    process.env.PATH = programs(...there);
    process.env.CDK_CONTEXT_JSON = '{}';
    new OptimizedEndpoint(newStack(), 'Chat', CHAT);
    const { arguments: given, environment } = recorded();
    assert.match(given.join(' '), asked);
    assert.equal(environment.CDK_CONTEXT_JSON, undefined);
    assert.equal(environment.JSII_NODE, process.execPath);
  });
}

test('a shim of a program that is not there is passed over', () => {
  delete process.env.CONSTRUCTS_OPTIM;
  process.env.PATH = programs('constructs-optim', 'uvx');
  writeFileSync(join(process.env.PATH, 'constructs-optim'), '#!/bin/sh\nexit 127\n');
  new OptimizedEndpoint(newStack(), 'Chat', CHAT);
  assert.match(recorded().arguments.join(' '), /^uvx /);
});

test('without the tool, the error says what was tried and what works', () => {
  delete process.env.CONSTRUCTS_OPTIM;
  process.env.PATH = programs();
  assert.throws(() => new OptimizedEndpoint(newStack(), 'Chat', CHAT), (error: Error) => {
    assert.match(error.message, /Tried: constructs-optim \(ENOENT\), uvx --from .* \(ENOENT\), pipx run .* \(ENOENT\)/);
    assert.match(error.message, /Install uv .* or pip install "constructs-optim\[cli\]==[\d.]+"/);
    return true;
  });
});
