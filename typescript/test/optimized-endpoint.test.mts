import assert from 'node:assert/strict';
import { chmodSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import {
  App, assertions, aws_ec2, aws_iam, aws_kms, aws_s3, aws_sns, CfnElement, CfnParameter, Duration, RemovalPolicy, Resource,
  Size, Stack,
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
  process.env.RECORD = join(folder, 'record.json');
  process.env.CONSTRUCTS_OPTIM = COMMAND;
  process.env.CDK_VALIDATION = 'false';
});

afterEach(() => {
  process.env.PATH = PATH;
});

function newStack(name = 'My', props = {}): Stack {
  return new Stack(new App({ outdir: join(folder, 'out') }), name, props);
}

function recorded(): any {
  return JSON.parse(readFileSync(process.env.RECORD!, 'utf-8'));
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
  assert.equal(endpoint.role, 'arn:${AWS::Partition}:iam::${Token2}:role/${Token3}');
  assert.equal(endpoint.model.s3.uri, 's3://${Token1}/models/');
  assert.equal(endpoint.variant.initial_instance_count, '${Token5}');
  const types = Object.values(file.parameters).map(({ type }: any) => type);
  assert.deepEqual(types, ['String', 'String', 'String', 'String', 'Number']);
  const arn = { 'Fn::GetAtt': [idOf(role), 'Arn'] };
  assert.deepEqual(templateOf(stack).Resources.ChatGiven6C7D8E9F.Properties.Parameters, [
    { Ref: idOf(bucket) },
    { 'Fn::Select': [4, { 'Fn::Split': [':', arn] }] },
    { 'Fn::Select': [1, { 'Fn::Split': [':role/', arn] }] },
    { Ref: idOf(topic) },
    { Ref: 'Count' },
  ]);
});

function idOf(resource: Resource): string {
  return Stack.of(resource).getLogicalId(resource.node.defaultChild as CfnElement);
}

test('a list of unknown length is refused', () => {
  const stack = newStack();
  const zones = new CfnParameter(stack, 'Layers', { type: 'CommaDelimitedList' }).valueAsList;
  const techniques = [{ quantization: { awq: { ignoredLayers: zones } } }];
  assert.throws(() => declared({ ...CHAT, techniques }, stack), /how many items a list has must be known at synthesis/);
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
    assert.deepEqual(Outputs[`${prefix}EndpointArn`].Value, { Ref: `${prefix}0A1B2C3D` });
    assert.ok(Mappings[`${prefix}Accounts`]);
  }
  assert.deepEqual(Object.keys(Parameters), ['BootstrapVersion']);
});

test('a file has its own ids, and the endpoint that is named', () => {
  const stack = newStack();
  const chat = OptimizedEndpoint.fromFile(stack, 'Mine', 'endpoint.yaml');
  assert.deepEqual(recorded().arguments.slice(0, 2), ['synth', 'endpoint.yaml']);
  assert.deepEqual(stack.resolve(chat.endpointArn), { Ref: 'MineChat0A1B2C3D' });
  assert.deepEqual(templateOf(stack).Outputs.MineChatEndpointArn.Value, { Ref: 'MineChat0A1B2C3D' });
  assert.throws(
    () => OptimizedEndpoint.fromFile(newStack(), 'Mine', 'endpoint.yaml', { endpoint: 'Search' }),
    /endpoint is Search, and the file declares Chat: name one of them/,
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
    PolicyDocument: { Statement: [{ Action: 'sagemaker:InvokeEndpoint', Effect: 'Allow', Resource: arn }] },
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
  assert.throws(() => chat.metric(EndpointMetric.GPU_RESERVATION), /does not publish gpu_reservation of a variant/);
});

test('what the tool warns of is a warning of the construct', () => {
  const stack = newStack();
  new OptimizedEndpoint(stack, 'Chat', CHAT);
  assertions.Annotations.fromStack(stack).hasWarning('/My/Chat', 'look at this [ack: constructs-optim:Synth]');
});

test('what the tool refuses is the message of the error', () => {
  const command = `${process.execPath} -e process.stderr.write('endpoints.Chat.model:_no_such_model');process.exit(2)`;
  assert.throws(() => new OptimizedEndpoint(newStack(), 'Chat', { ...CHAT, command }), /endpoints\.Chat\.model:_no_such_model/);
});

function programs(...names: string[]): string {
  const bin = mkdtempSync(join(folder, 'bin-'));
  for (const name of names) {
    writeFileSync(join(bin, name), `#!/bin/sh\nexec ${COMMAND} ${name} "$@"\n`);
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

test('without the tool, the error says what was tried and what works', () => {
  delete process.env.CONSTRUCTS_OPTIM;
  process.env.PATH = programs();
  assert.throws(() => new OptimizedEndpoint(newStack(), 'Chat', CHAT), (error: Error) => {
    assert.match(error.message, /Tried: constructs-optim \(ENOENT\), uvx --from .* \(ENOENT\), pipx run .* \(ENOENT\)/);
    assert.match(error.message, /Install uv .* or pip install "constructs-optim\[cli\]==[\d.]+"/);
    return true;
  });
});
