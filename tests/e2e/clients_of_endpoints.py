"""Asks an endpoint through a client, and prints the answer: ``clients_of_endpoints.py CLIENT ENDPOINT QUESTION``.

It runs in ``.venv-clients``, whose packages are those that users have. The environment says where AWS is; BEARER_TOKEN
is for the clients of OpenAI's API.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

MOST_TOKENS = 12


def base_url(endpoint: str) -> str:
    return f"{os.environ['AWS_ENDPOINT_URL']}/endpoints/{endpoint}/openai/v1"


def chat(question: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": question}], "max_tokens": MOST_TOKENS, "temperature": 0}


def text_of(completion: Any) -> str:
    return completion["choices"][0]["message"]["content"]


def openai(endpoint: str, question: str) -> str:
    from openai import OpenAI

    client = OpenAI(base_url=base_url(endpoint), api_key=os.environ["BEARER_TOKEN"])
    completion = client.chat.completions.create(model="", **chat(question))
    return completion.choices[0].message.content or ""


def openai_stream(endpoint: str, question: str) -> str:
    from openai import OpenAI

    client = OpenAI(base_url=base_url(endpoint), api_key=os.environ["BEARER_TOKEN"])
    stream = client.chat.completions.create(model="", stream=True, **chat(question))
    return "".join(chunk.choices[0].delta.content or "" for chunk in stream)


def boto3(endpoint: str, question: str) -> str:
    import boto3

    body = json.dumps(chat(question))
    found = boto3.client("sagemaker-runtime").invoke_endpoint(
        EndpointName=endpoint, ContentType="application/json", Body=body
    )
    return text_of(json.loads(found["Body"].read()))


def boto3_stream(endpoint: str, question: str) -> str:
    import boto3

    body = json.dumps({**chat(question), "stream": True})
    found = boto3.client("sagemaker-runtime").invoke_endpoint_with_response_stream(
        EndpointName=endpoint, ContentType="application/json", Body=body
    )
    content = b"".join(event["PayloadPart"]["Bytes"] for event in found["Body"]).decode()
    events = [line.removeprefix("data: ") for line in content.splitlines() if line.startswith("data: {")]
    return "".join(json.loads(event)["choices"][0]["delta"].get("content", "") for event in events)


def langchain_openai(endpoint: str, question: str) -> str:
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(
        base_url=base_url(endpoint),
        api_key=os.environ["BEARER_TOKEN"],
        model="model",
        max_tokens=MOST_TOKENS,
        temperature=0,
    )
    return str(model.invoke(question).content)


def langchain_aws(endpoint: str, question: str) -> str:
    from langchain_aws.llms.sagemaker_endpoint import LLMContentHandler, SagemakerEndpoint

    class Chats(LLMContentHandler):
        content_type = accepts = "application/json"

        def transform_input(self, prompt: str, model_kwargs: dict[str, Any]) -> bytes:
            return json.dumps({**chat(prompt), **model_kwargs}).encode()

        def transform_output(self, output: bytes) -> str:
            return text_of(json.loads(output.read()))  # type: ignore[attr-defined]

    model = SagemakerEndpoint(endpoint_name=endpoint, region_name=os.environ["AWS_REGION"], content_handler=Chats())
    return model.invoke(question)


def sagemaker(endpoint: str, question: str) -> str:
    from sagemaker.base_deserializers import JSONDeserializer
    from sagemaker.base_serializers import JSONSerializer
    from sagemaker.predictor import Predictor

    predictor = Predictor(endpoint, serializer=JSONSerializer(), deserializer=JSONDeserializer())
    return text_of(predictor.predict(chat(question)))


if __name__ == "__main__":
    print(globals()[sys.argv[1]](*sys.argv[2:]))  # noqa: T201
