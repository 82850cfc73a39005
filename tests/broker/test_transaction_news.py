"""What an operator learns of transactions: a line in the log for those that the broker aborted, and metrics."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from kohort.protocol.api_keys import ApiKey
from tests.broker.test_rebalance_news import read_metrics
from tests.clients.kohort import KohortProcess
from tests.parity.peer import Peer
from tests.parity.transaction_story import TransactionStory

SOON = {"transaction_abort_timed_out_transaction_cleanup_interval_ms": "50"}
LINE = re.compile(
    r"Z (\S+) +ended transaction id=(.*) producer_id=(\d+) epoch=(\d+) result=(\w+) cause='(\w*)' partitions=(\d+) "
    r"duration_ms=(\d+)$",
    re.MULTILINE,
)
STRANGE = "-two words\n2026-11-17T00:00:00.000Z WARNING ended transaction id=forged"


def story_on(process: KohortProcess) -> TransactionStory:
    peer = Peer("broker", process.address)
    peer.begin("news", 5)
    return TransactionStory(peer, ApiKey.END_TXN)


def end_in_all_ways(story: TransactionStory) -> list[int]:
    """The epochs that the transactions ended with: committed, aborted, fenced, timed out."""
    topic = story.topic("", 2)
    good, fenced, late = story.begun("-good"), story.begun(STRANGE), story.begun("-late", timeout_ms=300)
    good.begin((topic, 0), (topic, 1))
    good.commit_it()
    good.begin((topic, 0))
    good.abort()
    fenced.begin((topic, 0), (topic, 1))
    story.producer(STRANGE).init()
    story.until_complete(story.group + STRANGE)
    late.begin((topic, 1))
    story.until_state("CompleteAbort", story.group + "-late")
    return [good.producer_id, fenced.producer_id, late.producer_id]


def test_the_log_tells_of_transactions_that_the_broker_has_aborted(tmp_path: Path) -> None:
    with KohortProcess(tmp_path, **SOON) as process:
        story = story_on(process)
        _, fenced, late = end_in_all_ways(story)
        story.close()
    lines = LINE.findall(process.log.read_text(encoding="utf-8"))
    assert [line[:7] for line in lines] == [
        ("INFO", repr(story.group + STRANGE), str(fenced), "1", "abort", "fenced", "2"),
        ("WARNING", f"{story.group}-late", str(late), "1", "abort", "timeout", "1"),
    ]
    assert int(lines[1][7]) >= 300


def test_at_level_debug_it_tells_of_all_and_in_json_each_thing_is_a_field(tmp_path: Path) -> None:
    with KohortProcess(tmp_path, "--log-level", "debug", "--log-format", "json", **SOON) as process:
        story = story_on(process)
        end_in_all_ways(story)
        story.close()
    lines: list[dict[str, Any]] = [json.loads(line) for line in process.log.read_text(encoding="utf-8").splitlines()]
    told = [line for line in lines if line["logger"] == "kohort.transaction"]
    assert [(line["level"].lower(), line["result"], line["cause"], line["partitions"]) for line in told] == [
        ("debug", "commit", "client", 2),
        ("debug", "abort", "client", 1),
        ("info", "abort", "fenced", 2),
        ("warning", "abort", "timeout", 1),
    ]
    assert told[2]["transactional_id"] == story.group + STRANGE
    assert all(line["duration_ms"] >= 0 and line["producer_id"] >= 0 for line in told)


def test_metrics_count_transactions_by_state_result_and_cause(tmp_path: Path) -> None:
    with KohortProcess(tmp_path, kohort_http_port="0", **SOON) as process:
        assert process.process.stdout is not None
        url = process.process.stdout.readline().split()[-1]
        quiet = read_metrics(url)
        story = story_on(process)
        end_in_all_ways(story)
        story.begun("-open").begin((story.peer.topic(), 0))
        busy = read_metrics(url)
        story.close()
    assert quiet['kohort_transactions{state="Ongoing"}'] == "0"
    assert quiet["kohort_transaction_seconds_count"] == "0"
    assert quiet["kohort_oldest_open_transaction_seconds"] == "0.000"
    assert [busy[f'kohort_transactions{{state="{state}"}}'] for state in ("Ongoing", "CompleteAbort")] == ["1", "3"]
    assert [
        busy[f'kohort_transactions_total{{result="{result}",cause="{cause}"}}']
        for result, cause in (("commit", "client"), ("abort", "client"), ("abort", "fenced"), ("abort", "timeout"))
    ] == ["1"] * 4
    assert busy["kohort_transaction_seconds_count"] == "4"
    assert float(busy["kohort_transaction_seconds_sum"]) >= 0.3
    assert float(busy["kohort_oldest_open_transaction_seconds"]) >= 0
