"""Starts Kafka and Kohort, plays every scenario on both, and prints one line per difference."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from itertools import groupby, repeat, starmap
from pathlib import Path
from typing import NamedTuple

from kohort.client.client import Client
from kohort.protocol.api_keys import APIS, ApiKey
from kohort.protocol.messages.api_versions import ApiVersionsRequest
from tests.clients.group_broker import GroupBroker
from tests.clients.kohort import KohortProcess
from tests.kafka.server import KafkaServer
from tests.parity import scenarios
from tests.parity.compare import Comparison, Difference
from tests.parity.differences import ALLOWED
from tests.parity.pairs import CRASHES, PAIRS, TRANSACTIONS
from tests.parity.peer import CLOSED, Exchange, Peer
from tests.parity.scenario import SCENARIOS, Scenario
from tests.parity.scenarios.coordinators import warm_up
from tests.parity.transcript import transcript_text

SIDE_BY_SIDE = 8
FIRST_WITH_ABORTABLE = {ApiKey.PRODUCE: 11, ApiKey.TXN_OFFSET_COMMIT: 4}


class Broker(NamedTuple):
    address: str
    crash: Callable[[], None] | None = None  # only of those that this program has started


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    scenarios.load(options.file or scenarios.FILES)
    chosen = [each for each in SCENARIOS if options.only in f"{APIS[each.api_key].name}: {each.name}"]
    if options.newest:
        chosen = [replace(each, versions=each.versions[-1:]) for each in chosen]
    if options.version is not None:
        chosen = [replace(each, versions=(options.version,)) for each in chosen if options.version in each.versions]
    started = time.monotonic()
    result = Result()
    for name, settings in PAIRS.items():
        wanted = [each for each in chosen if each.pair == name]
        if not wanted:
            continue
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kohort-parity-")))
            start_other = start_kafka if options.twice else start_breakable_kohort if name == CRASHES else start_kohort
            kafka = Broker(options.kafka) if options.kafka else start_kafka(stack, folder / "kafka", settings)
            kohort = Broker(options.kohort) if options.kohort else start_other(stack, folder / "other", settings)
            play_all(wanted, kafka, kohort, result)
    print_report(result, time.monotonic() - started)
    if options.transcripts is not None:
        options.transcripts.write_text("".join(starmap(transcript_text, result.transcripts)), encoding="utf-8")
    return 1 if result.comparison.differences else 0


def start_kafka(stack: ExitStack, folder: Path, settings: dict[str, str]) -> Broker:
    server = stack.enter_context(KafkaServer(folder, settings))
    return Broker(server.address, server.crash)


def start_kohort(stack: ExitStack, folder: Path, settings: dict[str, str]) -> Broker:
    return Broker(stack.enter_context(KohortProcess(folder, node_id="1", **_as_names(settings))).address)


def start_breakable_kohort(stack: ExitStack, folder: Path, settings: dict[str, str]) -> Broker:
    """On a port of its own choice, which it finds free again after a crash."""
    broker = stack.enter_context(GroupBroker(folder, node_id="1", **_as_names(settings)))

    def crash() -> None:
        broker.kill()
        broker.start_again()

    return Broker(broker.address, crash)


def _as_names(settings: dict[str, str]) -> dict[str, str]:
    return {key.replace(".", "_"): value for key, value in settings.items()}


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make parity", description=__doc__)
    parser.add_argument("--only", default="", metavar="TEXT", help="scenarios with TEXT in 'Api: sentence'")
    parser.add_argument("--file", action="append", choices=scenarios.FILES, help="of tests/parity/scenarios, this one")
    parser.add_argument("--version", type=int, help="this version alone")
    parser.add_argument("--newest", action="store_true", help="each scenario in its newest version alone")
    parser.add_argument("--kafka", metavar="HOST:PORT", help="a Kafka that runs already")
    parser.add_argument("--kohort", metavar="HOST:PORT", help="a Kohort that runs already")
    parser.add_argument("--twice", action="store_true", help="a second Kafka in Kohort's place: do scenarios repeat?")
    parser.add_argument("--transcripts", type=Path, metavar="FILE", help="write what was asked, and Kafka's answers")
    return parser.parse_args(arguments)


class Result:
    def __init__(self) -> None:
        self.comparison = Comparison()
        self.played: set[str] = set()
        self.runs = 0
        self.not_served: set[str] = set()
        self.transcripts: list[tuple[Scenario, int, list[Exchange]]] = []  # of Kafka


def play_all(chosen: Sequence[Scenario], kafka: Broker, kohort: Broker, result: Result) -> None:
    """Those that look at the whole broker one by one, the others side by side: most of the time is Kafka's waiting."""
    served = [announced(kafka.address), announced(kohort.address)]
    result.not_served |= {APIS[each.api_key].name for each in chosen if each.api_key not in served[1]}
    runs = [
        (scenario, each)
        for scenario in sorted(chosen, key=lambda scenario: not scenario.alone)
        for each in scenario.versions
        if all(each in table.get(scenario.api_key, ()) for table in served)
    ]
    with ThreadPoolExecutor(1) as single, ThreadPoolExecutor(SIDE_BY_SIDE) as many:
        for alone, threads in ((True, single), (False, many)):
            wanted = [run for run in runs if run[0].alone is alone]
            if not alone or any(run[0].pair in (CRASHES, TRANSACTIONS) for run in wanted):
                for peer in (Peer("Kafka", kafka.address), Peer("Kohort", kohort.address)):
                    warm_up(peer)
            for _, together in groupby(sorted(wanted, key=_phase), key=_phase):
                some = list(together)
                for run, (theirs, ours) in zip(
                    some, threads.map(_play_both, some, repeat(kafka), repeat(kohort)), strict=True
                ):
                    result.comparison.transcripts(run[0].name, theirs, ours)
                    result.played.add(run[0].name)
                    result.transcripts.append((*run, theirs))
    result.runs += len(runs)


def _phase(run: tuple[Scenario, int]) -> int:
    """Kafka asks the transaction coordinator about batches of several clients at the same time, and answers all of them
    in the words of one: clients that know TRANSACTION_ABORTABLE must not be asked about beside those that do not.
    """
    scenario, version = run
    knows_abortable = FIRST_WITH_ABORTABLE.get(scenario.api_key) if scenario.pair == TRANSACTIONS else None
    return 0 if knows_abortable is None else 1 if version < knows_abortable else 2


def _play_both(run: tuple[Scenario, int], kafka: Broker, kohort: Broker) -> tuple[list[Exchange], list[Exchange]]:
    theirs, ours = Peer("Kafka", kafka.address, crash=kafka.crash), Peer("Kohort", kohort.address, crash=kohort.crash)
    return _play(run[0], theirs, run[1]), _play(run[0], ours, run[1])


def announced(address: str) -> dict[int, range]:
    """Which versions of which API a broker serves, by its own word."""
    with Client(address) as client:
        answer = client.send(18, ApiVersionsRequest("kohort", "0.1"), 3)
    return {each.api_key: range(each.min_version, each.max_version + 1) for each in answer.api_keys}


def _play(scenario: Scenario, peer: Peer, version: int) -> list[Exchange]:
    peer.begin(scenario.name, version)
    try:
        scenario.play(peer)
    except (AssertionError, AttributeError, IndexError, TypeError) as problem:
        # The broker did something that the scenario cannot go on from; the other one will tell the difference.
        if not (peer.exchanges and peer.exchanges[-1].answer == CLOSED):
            peer.note(f"{APIS[scenario.api_key].name}: the scenario broke off", f"{problem}")
    transcript = peer.exchanges
    peer.hang_up()
    try:
        peer.end()
    except AssertionError as problem:
        peer.note(f"{APIS[scenario.api_key].name}: cleaning up", f"{problem}")
    return transcript


def print_report(result: Result, seconds: float) -> None:
    for line in difference_lines(result.comparison.differences):
        print(line)
    for api in sorted(result.not_served):
        print(f"{api}: not served yet, its scenarios were left out")
    for allowed in ALLOWED:
        if allowed not in result.comparison.used:
            print(f"not needed in this run: {allowed.api} {allowed.field} ({allowed.reason})")
    print(
        f"{len(result.played)} scenarios, {result.runs} runs, {result.comparison.fields} fields compared, "
        f"{len(result.comparison.differences)} differences, {seconds:.0f} s"
    )


def difference_lines(differences: Sequence[Difference]) -> Iterator[str]:
    """scenario | API versions | field | Kafka's value | ours; the same difference in several versions is one line."""

    def same(each: Difference) -> tuple[str, str, str, str, str]:
        return each.scenario, each.api, each.field, each.kafka, each.ours

    first = {same(each): index for index, each in reversed(list(enumerate(differences)))}
    for key, group in groupby(sorted(differences, key=lambda each: (first[same(each)], each.version)), key=same):
        scenario, api, field, kafka, ours = key
        versions = _ranges(sorted({each.version for each in group}))
        yield f"{scenario} | {api} {versions} | {field} | Kafka: {kafka} | ours: {ours}"


def _ranges(versions: list[int]) -> str:
    parts = []
    for _, run in groupby(enumerate(versions), key=lambda pair: pair[1] - pair[0]):
        numbers = [version for _, version in run]
        parts.append(f"v{numbers[0]}-{numbers[-1]}" if len(numbers) > 1 else f"v{numbers[0]}")
    return ",".join(parts)
