"""One tool's run against the timing server, in that tool's own environment; bench/evaluator.py starts it.

    python bench/evaluation_clients.py TOOL URL CONCURRENCY REQUESTS

prints a JSON object with what the tool itself says it measured: milliseconds and requests a second.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import tempfile
import threading
from typing import Any

TOKENS = 50
MESSAGES = [{"role": "user", "content": "hello there what is"}]


def constructs_optim(url: str, concurrency: int, requests: int) -> dict[str, float]:
    """This library's own load."""
    import uvloop

    from constructs_optim.evaluator.connection import UrlTarget
    from constructs_optim.evaluator.load import MeasuredLevel, Sender
    from constructs_optim.evaluator.options import ClosedLoop, Generation
    from constructs_optim.evaluator.prompts import Prompt
    from constructs_optim.evaluator.streaming import ChatFormat
    from constructs_optim.evaluator.summary import summarize_level
    from constructs_optim.evaluator.tokens import count_tokens

    prompts = [Prompt.model_validate({"messages": MESSAGES})]
    sender = Sender(UrlTarget(f"{url}/v1", model="timed"), ChatFormat, prompts, Generation(max_tokens=TOKENS))
    level, load = MeasuredLevel(), ClosedLoop(concurrency=concurrency, requests=requests)
    uvloop.run(sender.run(load, level))
    count_tokens(level.records, prompts, None, chat=True)
    metrics = summarize_level(load, level, None).metrics
    return {
        "time_to_first_token_p50": metrics["time_to_first_token_p50"],
        "time_to_first_token_p99": metrics["time_to_first_token_p99"],
        "inter_token_latency_p50": metrics["inter_token_latency_p50"],
        "requests_per_second": metrics["requests_per_second"],
        "errors": metrics["client_invocation_errors"],
    }


def llmeter(url: str, concurrency: int, requests: int) -> dict[str, float]:
    """Llmeter as it comes."""
    from llmeter.endpoints.openai import OpenAICompletionStreamEndpoint  # pyright: ignore[reportMissingImports]

    return _of_llmeter(
        OpenAICompletionStreamEndpoint("timed", api_key="none", base_url=f"{url}/v1"), concurrency, requests
    )


def llmeter_connection(url: str, concurrency: int, requests: int) -> dict[str, float]:
    """Llmeter's runner, whose threads wait while this library's connections take the times on an event loop."""
    import uvloop
    from llmeter.endpoints.base import Endpoint  # pyright: ignore[reportMissingImports]

    from constructs_optim.evaluator.connection import Connection, UrlTarget
    from constructs_optim.evaluator.streaming import ChatFormat

    target = UrlTarget(f"{url}/v1", model="timed")
    loop = uvloop.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    idle: list[Connection] = []

    async def exchanged(payload: dict[str, Any]) -> Any:
        connection = idle.pop() if idle else Connection(target.server)
        exchange = await connection.send(await target.request(json.dumps(payload).encode(), ChatFormat.path), 60)
        idle.append(connection)
        return exchange

    class Streaming(Endpoint):
        def __init__(self) -> None:
            super().__init__("timed", "timed", "openai")

        @Endpoint.llmeter_invoke
        def invoke(self, payload: dict[str, Any]) -> Any:
            return asyncio.run_coroutine_threadsafe(exchanged(payload), loop).result()

        def prepare_payload(self, payload: dict[str, Any]) -> dict[str, Any]:
            return {**payload, "stream": True, "stream_options": {"include_usage": True}}

        def process_raw_response(self, raw_response: Any, start_t: float, response: Any) -> None:
            decoder = ChatFormat(raw_response)
            for at, piece in raw_response.pieces:
                decoder.feed(at, piece)
            done = decoder.finish()
            response.response_text, response.error = done.text, done.error
            response.time_to_first_token = (done.first_token or 0) - raw_response.start
            response.time_to_last_token = (done.last_token or 0) - raw_response.start
            response.num_tokens_input, response.num_tokens_output = (
                done.server_input_tokens,
                done.server_output_tokens,
            )

    return _of_llmeter(Streaming(), concurrency, requests)


def _of_llmeter(endpoint: Any, concurrency: int, requests: int) -> dict[str, float]:
    os.environ["LLMETER_DISABLE_ALL_PROGRESS_BARS"] = "1"
    from llmeter.runner import Runner  # pyright: ignore[reportMissingImports]

    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(
            endpoint=endpoint,
            clients=concurrency,
            n_requests=requests // concurrency,
            payload={"messages": MESSAGES, "max_tokens": TOKENS},
            output_path=folder,
        )
        result = asyncio.run(runner.run())
    answered = [each for each in result.responses if not each.error]
    first = sorted(each.time_to_first_token * 1000 for each in answered)
    return {
        "time_to_first_token_p50": statistics.median(first),
        "time_to_first_token_p99": first[len(first) * 99 // 100],
        "inter_token_latency_p50": statistics.median(each.time_per_output_token * 1000 for each in answered),
        "requests_per_second": len(answered) / result.total_test_time,
        "errors": len(result.responses) - len(answered),
    }


if __name__ == "__main__":
    tools = {"constructs-optim": constructs_optim, "llmeter": llmeter, "llmeter-connection": llmeter_connection}
    print(json.dumps(tools[sys.argv[1]](sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
