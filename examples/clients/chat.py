"""A chat with an endpoint by OpenAI's own client: ``python examples/clients/chat.py BASE_URL "Why?"``.

BASE_URL is the endpoint's ``openai_base_url``, for instance an output of its stack. Needs ``pip install openai`` and
AWS credentials that ``grant_invoke`` covers. The token is made anew for each request, on this machine.
"""

import sys

import boto3
from openai import OpenAI

from constructs_optim.evaluator.bearer_token import bearer_token

base_url, question = sys.argv[1:]
session = boto3.Session()


def token() -> str:
    """A token of five minutes."""
    credentials = session.get_credentials()
    if credentials is None:
        sys.exit("there are no AWS credentials: sign in, or set AWS_PROFILE")
    return bearer_token(credentials.get_frozen_credentials(), session.region_name, seconds=300)


client = OpenAI(base_url=base_url, api_key=token)
# An endpoint has one model: its name may stay empty.
answer = client.chat.completions.create(model="", messages=[{"role": "user", "content": question}], stream=True)
for chunk in answer:
    sys.stdout.write(chunk.choices[0].delta.content or "")
    sys.stdout.flush()
sys.stdout.write("\n")
