// Stands for constructs-optim: records what it is asked in the file that its first argument names, and writes a template
// with one endpoint, or with what else an endpoint's environment asks for.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf-8'));
const folder = process.argv[process.argv.indexOf('--output') + 1];
const input = readFileSync(0, 'utf-8');
mkdirSync(folder, { recursive: true });
writeFileSync(process.argv[2], JSON.stringify({ arguments: process.argv.slice(3), input, environment: process.env }));
const file = input === '' ? { endpoints: { Chat: {} }, parameters: { LogLevel: { type: 'String' } } } : JSON.parse(input);
const [[id, { environment = {}, role = '' }]] = Object.entries(file.endpoints);
const [tag] = [process.argv[process.argv.indexOf('--tag') + 1].split('=')].map(([Key, Value]) => ({ Key, Value }));
const alarm = {
  Type: 'AWS::CloudWatch::Alarm',
  Properties: { ComparisonOperator: 'GreaterThanThreshold', EvaluationPeriods: 1, Tags: [tag] },
};
const named = input === '' ? [{ Key: 'level', Value: { Ref: 'LogLevel' } }] : [];
const invocation = { Action: [environment.ACTION ?? 'sagemaker:InvokeEndpoint'], Condition: { Bool: { 'aws:SecureTransport': 'true' } } };
const policy = (...arns) => ({
  'Fn::Join': ['', [
    `${JSON.stringify({ Statement: [{ Sid: 'Invoke', Effect: 'Allow', ...invocation, Resource: ['<arn>'] }] }).split('<arn>')[0]}`,
    ...arns.flatMap((arn, index) => index === 0 ? [arn] : ['","', arn]),
    '"]}]}',
  ]],
});
// Known keys are one text, and others are joined.
const artifactKeys = (keys) => keys.includes('${') ? { 'Fn::Join': [',', [{ Ref: 'AWS::StackName' }, 'b']] } : keys;
const template = {
  Parameters: { ...Object.fromEntries(Object.entries(file.parameters)
    .map(([name, { type }]) => [name, { Type: type }])), CodeBucket: { Type: 'String' }, CodeKey: { Type: 'String' } },
  Mappings: { Accounts: { 'us-west-2': { Account: '111122223333' } } },
  Resources: {
    [`${id}0A1B2C3D`]: {
      Type: 'AWS::SageMaker::Endpoint',
      Properties: { EndpointConfigName: 'config', EndpointName: 'chat' },
    },
    [`${id}Slow4E5F6071`]: alarm,
    [`${id}Dashboard2B3C4D5E`]: { Type: 'AWS::CloudWatch::Dashboard', Properties: { DashboardBody: '{}' } },
    Function28394A5B: {
      Type: 'AWS::Lambda::Function',
      Properties: {
        Code: { S3Bucket: { Ref: 'CodeBucket' }, S3Key: { Ref: 'CodeKey' } },
        Description: `looks ${id}0A1B2C3D up, and not X${id}0A1B2C3D`,
        Role: 'arn',
      },
    },
    Logs7E8F9A0B: { Type: 'AWS::Logs::LogGroup', Properties: { LogGroupName: '/aws/vendedlogs/states/my' } },
    Given6C7D8E9F: {
      Type: 'Custom::Given',
      Properties: {
        Parameters: Object.keys(file.parameters).map((name) => ({ Ref: name })),
        ServiceToken: { 'Fn::GetAtt': ['Function28394A5B', 'Arn'] },
        Text: { 'Fn::Join': ['', [{ Ref: 'AWS::Region' }, ` and {"Tags":[${JSON.stringify(tag)}]}`]] },
        Tags: [...named, tag],
      },
    },
    Policy8D9E0F1A: {
      Type: 'AWS::IAM::Policy',
      Properties: { PolicyName: 'models', PolicyDocument: {}, Roles: [{ Ref: /role\/\$\{(\w+)\}/.exec(role)?.[1] ?? 'AWS::NoValue' }] },
    },
  },
  Outputs: {
    [`${id}EndpointName`]: { Value: { 'Fn::GetAtt': [`${id}0A1B2C3D`, 'EndpointName'] } },
    [`${id}EndpointArn`]: { Value: { Ref: `${id}0A1B2C3D` } },
    [`${id}VariantName`]: { Value: 'AllTraffic' },
    ...environment.ARTIFACTS ? { [`${id}ArtifactKeys`]: { Value: artifactKeys(environment.ARTIFACTS) } } : {},
    [`${id}DashboardName`]: { Value: { Ref: `${id}Dashboard2B3C4D5E` } },
    Declared: { Value: 'by the file' },
    ...environment.COMPONENTS ? {
      [`${id}AssistantInferenceComponentName`]: { Value: 'assistant' },
      [`${id}AssistantInferenceComponentArn`]: { Value: { 'Fn::GetAtt': ['Given6C7D8E9F', 'Component'] } },
      [`${id}AssistantInvokePolicy`]: {
        Value: policy({ Ref: `${id}0A1B2C3D` }, { 'Fn::GetAtt': ['Given6C7D8E9F', 'Component'] }),
      },
      [`${id}AssistantAlarmNames`]: { Value: { 'Fn::Join': [',', [{ Ref: `${id}Slow4E5F6071` }]] } },
    } : {
      [`${id}AlarmNames`]: { Value: { 'Fn::Join': [',', [{ Ref: `${id}Slow4E5F6071` }]] } },
      [`${id}InvokePolicy`]: { Value: policy({ Ref: `${id}0A1B2C3D` }) },
    },
  },
};
writeFileSync(join(folder, 'Chat.template.json'), JSON.stringify(template));
writeFileSync(join(folder, 'code.zip'), 'code');
const warnings = 'look at the instance_type [ack: constructs-optim:OPT013]\nlook at this';
console.log('Installed 40 packages in 2 s');
console.log(JSON.stringify({
  version: environment.VERSION ?? version,
  template: join(folder, 'Chat.template.json'),
  body: JSON.stringify(template),
  warnings,
  CodeKey: join(folder, 'code.zip'),
}));
