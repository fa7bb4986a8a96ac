from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter

import pytest

from constructs_optim.evaluator.connection import Connection, Exchange, UrlTarget
from constructs_optim.evaluator.load import MeasuredLevel, Segment, prompt_order
from constructs_optim.evaluator.options import Arrivals, ClosedLoop, EvaluationError, Load, OpenLoop, Replay
from constructs_optim.evaluator.prompts import Prompt
from constructs_optim.evaluator.requests import ErrorKind, errors_by_kind
from constructs_optim.evaluator.streaming import ChatFormat, Format, LmiFormat, Record
from constructs_optim.evaluator.summary import summarize_level
from constructs_optim.evaluator.tokens import count_tokens

from ..support.model_server import FIRST_TOKEN, TOKENS, ModelServer, asked, sender, sent
from ..support.summaries import summarized

KINDS = {
    "400": ErrorKind.CLIENT_ERROR,
    "429": ErrorKind.THROTTLED,
    "500": ErrorKind.SERVER_ERROR,
    "refuse": ErrorKind.BROKEN_CONNECTION,
    "hang": ErrorKind.TIMEOUT,
    "stall": ErrorKind.TIMEOUT,
    "cut": ErrorKind.CUT_STREAM,
    "unfinished": ErrorKind.CUT_STREAM,
    "malformed": ErrorKind.MALFORMED_RESPONSE,
    "error": ErrorKind.MODEL_ERROR,
}


def asked_of(server: ModelServer) -> list[str]:
    return [body["body"]["messages"][0]["content"] for body in server.timing.bodies]


def test_each_prompt_is_sent_once_before_any_is_repeated(server: ModelServer) -> None:
    prompts = asked("one", "two", "three", "four")
    records, segment = sent(sender(server, prompts), ClosedLoop(concurrency=2, requests=8, warm_up=0))
    assert Counter(asked_of(server)) == {"one": 2, "two": 2, "three": 2, "four": 2}
    # Which of two requests ends first is the machine's doing.
    first = sorted(records, key=lambda record: record.start)[:4]
    assert sorted(record.prompt for record in first) == [0, 1, 2, 3]
    assert segment.complete


def test_concurrent_users_send_different_prompts(server: ModelServer) -> None:
    """A server that keeps what it has read of a prompt would answer all but the first of them from its cache."""
    prompts = asked(*(f"prompt {number}" for number in range(16)))
    sent(sender(server, prompts), ClosedLoop(concurrency=16, requests=16, warm_up=0))
    assert len(set(asked_of(server))) == 16


def test_requests_in_flight_never_exceed_the_concurrency(server: ModelServer) -> None:
    records, _ = sent(sender(server, asked("a", "b")), ClosedLoop(concurrency=3, requests=12))
    edges = sorted([(record.start, 1) for record in records] + [(record.end, -1) for record in records])
    on_their_way, most = 0, 0
    for _, step in edges:
        on_their_way += step
        most = max(most, on_their_way)
    assert most == 3


def test_warm_up_requests_are_sent_and_not_measured(server: ModelServer) -> None:
    records, _ = sent(sender(server, asked("a")), ClosedLoop(concurrency=2, requests=4, warm_up=3))
    # Users go on until the last response that counts is complete.
    assert len(records) == 4
    assert 4 + 2 * 3 <= server.timing.requests <= 4 + 2 * 3 + 2 * 2


def test_each_record_has_the_text_token_counts_and_plausible_times(server: ModelServer) -> None:
    records, _ = sent(sender(server, asked("five words are in here")), ClosedLoop(concurrency=1, requests=2))
    for record in records:
        assert record.text == "".join(f"w{number} " for number in range(TOKENS))
        assert (record.server_input_tokens, record.server_output_tokens) == (5, TOKENS)
        assert record.first_token is not None
        assert record.last_token is not None
        assert record.first_token - record.start >= FIRST_TOKEN - 0.001
        assert record.start < record.first_token <= record.last_token <= record.end


def test_every_fault_is_counted_by_kind_and_none_ends_the_run(server: ModelServer) -> None:
    prompts = asked("fine", "fault:empty", *(f"fault:{name}" for name in KINDS))
    load = ClosedLoop(concurrency=4, requests=3 * len(prompts), timeout_seconds=0.3)
    records, segment = sent(sender(server, prompts), load)
    assert segment.complete
    expected = Counter({kind.value: 0 for kind in KINDS.values()})
    for kind in KINDS.values():
        expected[kind.value] += 3
    assert errors_by_kind(records) == expected
    by_prompt = {record.prompt: record for record in records}
    assert by_prompt[0].is_measured
    assert by_prompt[1].is_empty
    assert all(by_prompt[place].message for place in range(2, len(prompts)))


def test_a_connection_that_breaks_in_use_is_an_error_without_a_retry(server: ModelServer) -> None:
    records, _ = sent(sender(server, asked("fine", "fault:refuse")), ClosedLoop(concurrency=1, requests=6, warm_up=0))
    assert Counter(record.error for record in records) == {None: 3, ErrorKind.BROKEN_CONNECTION: 3}
    assert server.timing.requests == 6
    assert not any(record.retried for record in records)


def on_one_connection(server: ModelServer, idle_seconds: float, prompt: str = "a") -> Exchange:
    """The second answer on a connection, whose server closes it at that moment."""

    async def twice() -> Exchange:
        to = sender(server, asked(prompt))
        connection = Connection(to.target.server)
        request = await to.write(to.prompts[0])
        await connection.send(request, 5)
        await asyncio.sleep(idle_seconds)
        server.timing.closes_next = True
        return await connection.send(request, 5)

    return asyncio.run(twice())


def test_a_connection_closed_while_idle_is_reopened_within_the_measured_time(server: ModelServer) -> None:
    before = time.perf_counter()
    exchange = on_one_connection(server, 1.1)
    assert (exchange.error, exchange.retried, server.timing.requests) == (None, True, 3)
    assert exchange.start - before >= 1.1
    assert exchange.end - exchange.start >= FIRST_TOKEN


def test_a_connection_that_was_just_in_use_is_not_reopened(server: ModelServer) -> None:
    exchange = on_one_connection(server, 0)
    assert (exchange.error, exchange.retried) == (ErrorKind.BROKEN_CONNECTION, False)


@pytest.mark.parametrize("bend", ["ping", "choiceless", "lines", "tools", "refusal"])
def test_extra_stream_content_beside_a_completion_is_tolerated(server: ModelServer, bend: str) -> None:
    records, _ = sent(sender(server, asked(f"bend:{bend}")), ClosedLoop(concurrency=1, requests=1, warm_up=0))
    (record,) = records
    assert (record.error, record.server_output_tokens) == (None, TOKENS)
    assert record.text.removeprefix("look_up") == "".join(f"w{number} " for number in range(TOKENS))
    assert record.first_token is not None
    assert record.last_token is not None
    assert record.first_token <= record.last_token <= record.end


def test_a_completion_in_one_piece_has_no_inter_token_latency(server: ModelServer) -> None:
    records, _ = sent(sender(server, asked("bend:whole")), ClosedLoop(concurrency=1, requests=2, warm_up=0))
    count_tokens(records, asked("bend:whole"), None, chat=True)
    metrics = summarized(records, 1, 1)
    assert metrics["output_tokens"] == TOKENS
    assert "time_to_first_token_p50" in metrics
    assert "inter_token_latency_p50" not in metrics
    assert "total_throughput" not in metrics


def test_tokens_of_the_first_chunk_do_not_count_for_inter_token_latency(server: ModelServer) -> None:
    """Half of the answer comes at once, the rest token by token: each of the rest took its time."""
    server.timing.inter_token = 0.02

    class Words:
        def count_text(self, text: str) -> int:
            return len(text.split())

        def count_prompt(self, prompt: Prompt, *, chat: bool) -> int:
            return len(prompt.text.split())

    prompts = asked("bend:first")
    records, _ = sent(sender(server, prompts), ClosedLoop(concurrency=1, requests=1, warm_up=0))
    count_tokens(records, prompts, Words(), chat=True)  # pyright: ignore[reportArgumentType]
    assert records[0].first_tokens == TOKENS // 2
    # The next token after half of them comes when that half would have been said: 35 ms a token, and not 20.
    assert (records[0].inter_token_latency or 0) > 25


def test_a_missing_token_count_is_not_mistaken_for_an_empty_completion(server: ModelServer) -> None:
    records, _ = sent(sender(server, asked("bend:uncounted")), ClosedLoop(concurrency=1, requests=1, warm_up=0))
    count_tokens(records, asked("bend:uncounted"), None, chat=True)
    metrics = summarized(records, 1, 1)
    assert metrics["empty_inference_response"] == 0
    assert metrics["client_latency_p50"] > 0
    assert "output_tokens" not in metrics


def test_a_refused_connection_is_reported(server: ModelServer) -> None:
    server.stop()
    records, _ = sent(sender(server, asked("a")), ClosedLoop(concurrency=1, requests=1, warm_up=0))
    assert [record.error for record in records] == [ErrorKind.CONNECTION]
    assert "Connection refused" in records[0].message


def test_a_load_is_abandoned_after_consecutive_failures(server: ModelServer) -> None:
    records, segment = sent(sender(server, asked("fault:500")), ClosedLoop(concurrency=2, seconds=60, warm_up=0))
    assert not segment.complete
    assert "requests all failed: status 500 ModelError asked for 500" in segment.abandoned
    assert 26 <= len(records) < 40


def test_a_load_can_be_limited_by_time(server: ModelServer) -> None:
    records, segment = sent(sender(server, asked("a")), ClosedLoop(concurrency=2, seconds=0.3))
    assert segment.complete
    assert records
    starts = [record.start for record in records]
    assert 0.2 < max(starts) - min(starts) < 2


def test_an_interruption_keeps_completed_requests_and_drops_the_others(server: ModelServer) -> None:
    server.timing.tokens = 5

    async def interrupted() -> tuple[list[Record], Segment]:
        level = MeasuredLevel()
        running = asyncio.create_task(
            sender(server, asked("a", "fault:hang")).run(ClosedLoop(concurrency=2, requests=50, warm_up=0), level)
        )
        while not level.records:
            await asyncio.sleep(0.01)
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        return level.records, level.segments[0]

    records, segment = asyncio.run(interrupted())
    assert not segment.complete
    assert all(record.error is None for record in records)


def test_the_prompt_order_depends_on_the_concurrency_alone() -> None:
    def first(concurrency: int) -> list[int]:
        order = prompt_order(50, f"{concurrency} users")
        return [next(order) for _ in range(100)]

    assert first(8) == first(8)
    assert first(8) != first(64)
    assert sorted(first(8)[:50]) == sorted(first(8)[50:]) == list(range(50))


def test_a_resumed_load_sends_only_the_missing_prompts() -> None:
    order = prompt_order(4, "8 users")
    whole = [next(order) for _ in range(8)]
    rest = prompt_order(4, "8 users", sent=[whole[1], whole[2], whole[5]])
    missing = [next(rest) for _ in range(5)]
    assert sorted([*missing, whole[1], whole[2], whole[5]]) == sorted(whole)


def test_prompts_of_earlier_levels_are_sent_after_all_others() -> None:
    order = prompt_order(6, "8 users", sent=[0, 1, 2])
    assert {next(order) for _ in range(3)} == {3, 4, 5}
    assert sorted(next(order) for _ in range(6)) == list(range(6))


def summary(level: MeasuredLevel, load: Load) -> dict[str, float]:
    count_tokens(level.records, [], None, chat=True)
    return summarize_level(load, level, None).metrics


def run(server: ModelServer, prompts: list[Prompt], load: Load, *, response_seconds: float = 0.05) -> MeasuredLevel:
    level, to = MeasuredLevel(), sender(server, prompts)
    to.response_seconds = response_seconds
    asyncio.run(to.run(load, level))
    return level


def test_the_start_and_the_end_of_a_load_are_not_measured_as_the_load(server: ModelServer) -> None:
    """A server that reads one prompt at a time: users who all began at once would queue, and never do so later."""
    timing = server.timing
    timing.first_token, timing.inter_token, timing.tokens, timing.prefill = 0.001, 0.04, 8, 0.008
    load = ClosedLoop(concurrency=16, requests=160)
    response = 0.009 + 7 * 0.04
    level = run(server, asked(*map(str, range(200))), load, response_seconds=response)
    measured = summary(level, load)
    assert measured["time_to_first_token_p90"] < 100, "all at once wait for 128 ms"
    assert measured["requests_per_second"] == pytest.approx(16 / response, rel=0.3)
    assert measured["output_tokens_per_second"] == pytest.approx(8 * 16 / response, rel=0.3)
    assert measured["client_invocations"] == 160
    assert any(not record.counted for record in level.records)


def test_an_open_loop_does_not_wait_for_responses(server: ModelServer) -> None:
    """The server takes 20 ms a request, and requests come every 10 ms: each waits longer than the one before."""
    server.timing.prefill, server.timing.tokens = 0.02, 2
    load = OpenLoop(request_rate=100, arrivals=Arrivals.CONSTANT, requests=60, warm_up=0)
    level = run(server, asked(*map(str, range(80))), load)
    waits = [record.time_to_first_token or 0.0 for record in sorted(level.records, key=lambda record: record.start)]
    assert len(waits) == 60
    assert waits[0] < 200
    # 59 times 10 ms, and what this machine adds.
    assert 560 < waits[59] - waits[0] < 1500
    starts = sorted(record.start for record in level.records)
    assert starts[-1] - starts[0] == pytest.approx(0.59, abs=0.4), "one after the other took 1.2 s or more"
    assert summary(level, load)["concurrency"] > 5, "those under way, on average"


def test_an_open_loop_has_its_rate_and_leaves_out_its_beginning(server: ModelServer) -> None:
    load = OpenLoop(request_rate=200, requests=300)
    level = run(server, asked(*map(str, range(400))), load, response_seconds=0.1)
    measured = summary(level, load)
    assert measured["client_invocations"] == 300
    assert 100 < measured["requests_per_second"] < 260
    # Of the 20 or so before anything counts, those that were over by then are forgotten.
    assert 0 < sum(not record.counted for record in level.records) < 60
    assert FIRST_TOKEN * 1000 - 1 < measured["time_to_first_token_p50"] < measured["client_latency_p50"]


def test_who_waits_for_a_connection_waits_for_the_endpoint(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("constructs_optim.evaluator.load._MOST_CONNECTIONS", 1)
    server.timing.first_token, server.timing.tokens = 0.05, 1
    load = OpenLoop(request_rate=100, arrivals=Arrivals.CONSTANT, requests=20, warm_up=0)
    level = run(server, asked(*map(str, range(30))), load)
    waits = [record.time_to_first_token or 0.0 for record in sorted(level.records, key=lambda record: record.start)]
    assert 790 < waits[19] < 2000
    assert 740 < level.segments[0].late_p99 < 2000


def test_an_endpoint_that_throttles_gets_time_to_recover(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("constructs_optim.evaluator.load._THROTTLED_SECONDS", 0.4)
    records, segment = sent(sender(server, asked("fault:429")), ClosedLoop(concurrency=2, seconds=60, warm_up=0))
    assert "requests all failed: status 429" in segment.abandoned
    assert 0.4 <= max(record.end for record in records) < 5


def test_an_open_loop_of_a_failing_endpoint_is_abandoned(server: ModelServer) -> None:
    load = OpenLoop(request_rate=500, seconds=60)
    level = run(server, asked("fault:500"), load, response_seconds=5)
    assert "requests all failed" in level.segments[0].abandoned
    assert not level.complete
    assert len(level.counted) >= 23, "though none was sent after the warm-up"


def test_a_replay_keeps_the_times_and_the_order_of_its_prompts(server: ModelServer) -> None:
    times = (0.0, 0.2, 1.6, 1.68, 2.4)
    prompts = [Prompt(prompt=f"prompt {at}", at_seconds=at) for at in times]
    level = run(server, prompts, Replay(request_rate=5, speed=2.0, count=5, warm_up=0))
    assert [record.prompt for record in sorted(level.records, key=lambda record: record.start)] == [0, 1, 2, 3, 4]
    starts = sorted(record.start for record in level.records)
    assert [start - starts[0] for start in starts] == pytest.approx([at / 2 for at in times], abs=0.3)
    assert asked_of(server) == [prompt.text for prompt in prompts]
    assert level.complete


def test_an_interrupted_replay_resumes_at_its_position(server: ModelServer) -> None:
    prompts = [Prompt(prompt=f"prompt {at}", at_seconds=at) for at in (0.0, 0.9, 1.2, 1.35, 1.5, 2.4)]
    load = Replay(request_rate=3, count=6, warm_up=0)
    level = MeasuredLevel()
    asyncio.run(sender(server, prompts).run(load.model_copy(update={"requests": 4}), level))
    starts = [record.start for record in level.records]
    assert [start - starts[0] for start in starts] == pytest.approx([0.0, 0.9, 1.2, 1.35], abs=0.3)
    level.segments[0].complete = False
    asyncio.run(sender(server, prompts).run(load, level))
    assert [record.prompt for record in level.records] == [0, 1, 2, 3, 4, 5]
    assert level.records[5].start - level.records[4].start == pytest.approx(0.9, abs=0.3)


def test_a_replay_that_lacks_one_of_its_requests_sends_that_one(server: ModelServer) -> None:
    prompts = [Prompt(prompt=f"prompt {at}", at_seconds=at / 20) for at in range(6)]
    level, load = MeasuredLevel(), Replay(request_rate=20, count=6, warm_up=0)
    asyncio.run(sender(server, prompts).run(load, level))
    level.records[:] = [record for record in level.records if record.prompt != 2]
    level.segments[0].complete = False
    asyncio.run(sender(server, prompts).run(load, level))
    assert sorted(record.prompt for record in level.records) == [0, 1, 2, 3, 4, 5]


def test_a_conversation_continues_with_the_completions_of_the_model(server: ModelServer) -> None:
    talk = Prompt.model_validate(
        {
            "messages": [{"role": "system", "content": "Be brief."}],
            "turns": ["one", {"prompt": "two", "delay_seconds": 0.2}, "three"],
        }
    )
    records, _ = sent(sender(server, [talk]), ClosedLoop(concurrency=1, requests=3, warm_up=0))
    assert [record.turn for record in records] == [0, 1, 2]
    assert records[1].start - records[0].end >= 0.2
    said = "".join(f"w{number} " for number in range(TOKENS))
    chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "one"}]
    chat += [{"role": "assistant", "content": said}, {"role": "user", "content": "two"}]
    assert server.timing.bodies[1]["body"]["messages"] == chat
    assert len(server.timing.bodies[2]["body"]["messages"]) == 6
    assert [record.server_input_tokens for record in records] == [3, 3 + TOKENS + 1, 3 + 2 * TOKENS + 2]


def test_tokens_of_a_conversation_include_all_earlier_turns(server: ModelServer) -> None:
    class Words:
        def count_text(self, text: str) -> int:
            return len(text.split())

        def count_prompt(self, prompt: Prompt, *, chat: bool) -> int:
            return len(prompt.text.split())

    prompts = [Prompt.model_validate({"turns": ["one", "two more", "three"]})]
    records, _ = sent(sender(server, prompts), ClosedLoop(concurrency=1, requests=3, warm_up=0))
    count_tokens(records, prompts, Words(), chat=True)  # pyright: ignore[reportArgumentType]
    assert [record.input_tokens for record in records] == [1, 1 + TOKENS + 2, 1 + TOKENS + 2 + TOKENS + 1]


def test_a_conversation_ends_where_a_turn_fails(server: ModelServer) -> None:
    talk = Prompt.model_validate({"turns": ["one", "fault:cut", "three"]})
    records, _ = sent(sender(server, [talk]), ClosedLoop(concurrency=1, requests=4, warm_up=0))
    assert [(record.turn, record.error) for record in records] == [
        (0, None),
        (1, ErrorKind.CUT_STREAM),
        (0, None),
        (1, ErrorKind.CUT_STREAM),
    ]


def test_conversations_arrive_at_a_rate(server: ModelServer) -> None:
    talk = Prompt.model_validate({"turns": ["one", "two"]})
    load = OpenLoop(request_rate=50, arrivals=Arrivals.CONSTANT, requests=20, warm_up=0)
    level = run(server, [talk], load)
    assert len(level.records) == 20
    assert Counter(record.turn for record in level.records)[1] >= 5


def test_unique_prompts_share_no_prefix(server: ModelServer) -> None:
    to = sender(server, asked("the same", "the other"))
    to.unique = "run"
    sent(to, ClosedLoop(concurrency=2, requests=8))
    asked_for = asked_of(server)
    assert len(set(asked_for)) == len(asked_for) >= 10
    assert all(text.startswith("run-") and text.endswith(("the same", "the other")) for text in asked_for)
    resumed = MeasuredLevel()
    asyncio.run(to.run(ClosedLoop(concurrency=1, requests=4), resumed))
    asyncio.run(to.run(ClosedLoop(concurrency=1, requests=8), resumed))
    assert len(set(asked_of(server))) == len(asked_of(server)), "at another load, and in another part of it"


def test_a_pause_within_a_response_is_seen(server: ModelServer) -> None:
    load = ClosedLoop(concurrency=1, requests=5, warm_up=0)
    measured = summary(run(server, asked("bend:pause"), load), load)
    longest = measured["longest_inter_chunk_latency_p50"]
    assert 95 < longest < 1000
    assert measured["inter_token_latency_p50"] < longest / 2, "the mean of a request hides it"
    assert measured["inter_chunk_latency_p50"] < longest / 2
    assert measured["inter_chunk_latency_p99"] > 90


def test_the_servers_count_of_cached_tokens_is_kept(server: ModelServer) -> None:
    records, _ = sent(
        sender(server, asked("bend:cached and six words here now")), ClosedLoop(concurrency=1, requests=1)
    )
    assert (records[0].server_input_tokens, records[0].cached_tokens) == (6, 3)


def test_tokens_that_arrive_in_one_chunk_are_counted_individually(server: ModelServer) -> None:
    server.timing.together = 4
    records, _ = sent(sender(server, asked("a")), ClosedLoop(concurrency=1, requests=1))
    assert records[0].server_output_tokens == TOKENS


def test_the_request_format_of_a_server_is_detected(server: ModelServer) -> None:
    def found(prompts: list[Prompt], *formats: type[Format]) -> type[Format]:
        to = sender(server, prompts)
        asyncio.run(to.choose_format(formats, 1))
        return to.format

    assert found(asked("fault:500", "a"), ChatFormat, LmiFormat) is ChatFormat, "one prompt may be at fault"
    assert found(asked("a"), LmiFormat, ChatFormat) is LmiFormat
    with pytest.raises(EvaluationError, match=r"openai: empty: .*\n.*lmi: empty"):
        found(asked("fault:empty"), ChatFormat, LmiFormat)


@pytest.mark.parametrize("url", ["127.0.0.1:80", "ftp://host/", "http://", "http://host:port/", "http://a:b@host/"])
def test_an_invalid_server_url_is_refused(url: str) -> None:
    with pytest.raises(EvaluationError, match=r"is not the URL of a server|credentials"):
        UrlTarget(url)


def test_an_api_key_is_sent_as_a_bearer_token(server: ModelServer) -> None:
    sent(sender(UrlTarget(server.url, api_key="k"), asked("a")), ClosedLoop(concurrency=1, requests=1, warm_up=0))
    assert server.timing.bodies[0]["headers"]["authorization"] == "Bearer k"
    assert server.timing.bodies[0]["path"] == "/v1/chat/completions"
    assert "model" not in server.timing.bodies[0]["body"]
