// An app with an endpoint of props and one of a file, which refer to resources of the app.
import { join } from 'node:path';
import { App, aws_iam, aws_s3, CfnOutput, RemovalPolicy, Stack } from 'aws-cdk-lib';
import { OptimizedEndpoint } from '../lib/index.js';

const app = new App();
const stack = new Stack(app, 'TypeScript');
const captures = new aws_s3.Bucket(stack, 'Captures', { removalPolicy: RemovalPolicy.DESTROY });

const chat = new OptimizedEndpoint(stack, 'Chat', {
  model: { jumpstart: { modelId: 'meta-textgeneration-llama-2-70b', version: '4.0.0', acceptEula: true } },
  techniques: [{ quantization: { awq: {} } }],
  instanceType: 'ml.g5.12xlarge',
  inferenceComponent: true,
  dataCapture: { bucket: captures, samplingPercentage: 5 },
  scaling: { minCapacity: 1, maxCapacity: 4, onConcurrency: { target: 8 } },
});
chat.grantInvoke(new aws_iam.Role(stack, 'Caller', { assumedBy: new aws_iam.ServicePrincipal('lambda.amazonaws.com') }));
chat.metricInvocations().createAlarm(stack, 'Busy', { evaluationPeriods: 1, threshold: 1000 });
new CfnOutput(stack, 'Url', { value: chat.openAiBaseUrl! });

const search = OptimizedEndpoint.fromFile(stack, 'Search', join(import.meta.dirname, 'endpoint.yaml'), { parameters: { LogLevel: "debug" } });
new CfnOutput(stack, 'SearchName', { value: search.endpointName });
