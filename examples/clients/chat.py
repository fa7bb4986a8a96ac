"""Chat with an endpoint through OpenAI's client: ``python examples/clients/chat.py BASE_URL "Why?"``.

BASE_URL is the endpoint's ``openai_base_url``, for example from an output of its stack. Needs ``pip install openai``
and AWS credentials that ``grant_invoke`` covers. This machine creates a new token for each request.
"""

import sys

import boto3
from openai import OpenAI

from constructs_optim.evaluator.bearer_token import bearer_token

base_url, question = sys.argv[1:]
session = boto3.Session()


def token() -> str:
    """Return a token that is valid for five minutes."""
    credentials = session.get_credentials()
    if credentials is None:
        sys.exit("there are no AWS credentials: sign in, or set AWS_PROFILE")
    return bearer_token(credentials.get_frozen_credentials(), session.region_name, seconds=300)


client = OpenAI(base_url=base_url, api_key=token)
# The endpoint has only one model, so its name can be empty.
answer = client.chat.completions.create(model="", messages=[{"role": "user", "content": question}], stream=True)
for chunk in answer:
    sys.stdout.write(chunk.choices[0].delta.content or "")
    sys.stdout.flush()
sys.stdout.write("\n")
