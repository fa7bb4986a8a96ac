"""A small server of language models on the CPU, in numpy: what stands for a container without an engine of its own.

It serves OpenAI's chat completions and completions, and SageMaker's ``/ping`` and ``/invocations``. It computes what an
engine computes, from the same files, and is no faster than the models of tests need.
"""
