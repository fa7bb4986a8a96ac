"""A small server of language models on the CPU, in numpy, which stands for a container's engine.

It serves OpenAI's chat completions and completions, and SageMaker's ``/ping`` and ``/invocations``. It computes the
same as an engine, from the same files, but is only fast enough for tests' models.
"""
