"""HOW a plan is deployed: AWS CDK constructs that translate it into resources and decide nothing themselves."""
