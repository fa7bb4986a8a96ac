// One endpoint: Llama 3 70B, quantized to INT4 with AWQ, which scales on concurrent requests.
//
//     npm install constructs-optim aws-cdk-lib constructs
//     cdk deploy --app "node quickstart.mts"
import { App, CfnOutput, Stack } from 'aws-cdk-lib';
import { OptimizedEndpoint } from 'constructs-optim';

const app = new App();
const stack = new Stack(app, 'Quickstart', {
  env: { account: process.env.CDK_DEFAULT_ACCOUNT, region: process.env.CDK_DEFAULT_REGION },
});

const endpoint = new OptimizedEndpoint(stack, 'Llama70B', {
  model: {
    jumpstart: { modelId: 'meta-textgeneration-llama-3-70b-instruct', version: '2.25.0', acceptEula: true },
  },
  techniques: [{ quantization: { awq: {} } }],
  instanceType: 'ml.g5.12xlarge',
  scaling: { maxCapacity: 4, onConcurrency: { target: 8 } },
});

new CfnOutput(stack, 'EndpointName', { value: endpoint.endpointName });
