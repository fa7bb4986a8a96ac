// Stands for constructs-optim: records what it is asked, and writes a template with one endpoint.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const folder = process.argv[process.argv.indexOf('--output') + 1];
const input = readFileSync(0, 'utf-8');
mkdirSync(folder, { recursive: true });
writeFileSync(process.env.RECORD, JSON.stringify({ arguments: process.argv.slice(2), input, environment: process.env }));
const file = input === '' ? { endpoints: { Chat: {} }, parameters: {} } : JSON.parse(input);
const [id] = Object.keys(file.endpoints);
const alarm = { Type: 'AWS::CloudWatch::Alarm', Properties: { ComparisonOperator: 'GreaterThanThreshold', EvaluationPeriods: 1 } };
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
      },
    },
  },
  Outputs: {
    [`${id}EndpointName`]: { Value: { 'Fn::GetAtt': [`${id}0A1B2C3D`, 'EndpointName'] } },
    [`${id}EndpointArn`]: { Value: { Ref: `${id}0A1B2C3D` } },
    [`${id}VariantName`]: { Value: 'AllTraffic' },
    [`${id}DashboardName`]: { Value: 'dashboard' },
    [`${id}AlarmNames`]: { Value: { 'Fn::Join': [',', [{ Ref: `${id}Slow4E5F6071` }]] } },
    [`${id}InvokePolicy`]: {
      Value: {
        'Fn::Join': ['', [
          '{"Statement":[{"Sid":"Invoke","Effect":"Allow","Action":["sagemaker:InvokeEndpoint"],"Resource":"',
          { Ref: `${id}0A1B2C3D` },
          '"}]}',
        ]],
      },
    },
  },
};
writeFileSync(join(folder, 'Chat.template.json'), JSON.stringify(template));
writeFileSync(join(folder, 'code.zip'), 'code');
console.error('warning: look at this');
console.log(JSON.stringify({ version: process.env.TOOL_VERSION ?? '0.1.0', template: join(folder, 'Chat.template.json'), CodeKey: join(folder, 'code.zip') }));
