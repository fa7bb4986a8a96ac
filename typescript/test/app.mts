// An app with an endpoint of props and one of a file, which refer to resources of the app.
import { join } from 'node:path';
import { App, aws_iam, aws_kms, aws_s3, CfnOutput, Fn, RemovalPolicy, Stack, Tags } from 'aws-cdk-lib';
import { EndpointFile, OptimizedEndpoint } from '../lib/index.js';

const app = new App();
const stack = new Stack(app, 'TypeScript');
const encryptionKey = new aws_kms.Key(stack, 'Key', { removalPolicy: RemovalPolicy.DESTROY });
const captures = new aws_s3.Bucket(stack, 'Captures', { encryptionKey, removalPolicy: RemovalPolicy.DESTROY });
const role = new aws_iam.Role(stack, 'Role', { assumedBy: new aws_iam.ServicePrincipal('sagemaker.amazonaws.com') });

const chat = new OptimizedEndpoint(stack, 'Chat', {
  model: { jumpstart: { modelId: 'meta-textgeneration-llama-2-70b', version: '4.0.0', acceptEula: true } },
  techniques: [{ quantization: { awq: {} } }],
  instanceType: 'ml.g5.12xlarge',
  inferenceComponent: {},
  role,
  dataCapture: { bucket: captures, samplingPercentage: 5 },
  scaling: { minCapacity: 1, maxCapacity: 4, onConcurrency: { target: 8 } },
});
chat.grantInvoke(new aws_iam.Role(stack, 'Caller', { assumedBy: new aws_iam.ServicePrincipal('lambda.amazonaws.com') }));
chat.metricInvocations().createAlarm(stack, 'Busy', { evaluationPeriods: 1, threshold: 1000 });
const search = new EndpointFile(stack, 'Search', {
  path: join(import.meta.dirname, 'endpoint.yaml'), parameters: { LogLevel: 'debug' },
});
const outputs = {
  Name: chat.endpointName, Url: chat.openAiBaseUrl!, Artifacts: Fn.join(',', chat.artifactKeys),
  SearchName: search.endpointName, SearchArtifacts: Fn.join(',', search.artifactKeys),
};
Object.entries(outputs).forEach(([id, value]) => new CfnOutput(stack, id, { value }));
Tags.of(app).add('team', 'nlp');
