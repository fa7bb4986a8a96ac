"""CodePipeline: a pipeline's executions run, and their actions are carried out by the local cloud's other services."""
