"""The live page on the HTTP port of a broker."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kohort.broker.config import ConfigError
from kohort.broker.http.site import Site
from kohort.broker.live.broker_source import BrokerSource
from kohort.broker.live.feed import Feed
from kohort.broker.live.group_metrics import group_lines
from kohort.broker.live.guard import Guard, WrongToken
from kohort.broker.live.page_site import add_live_page
from kohort.broker.metrics import Metrics

if TYPE_CHECKING:
    from kohort.broker.broker import Broker


def live_page(broker: Broker, site: Site, host: str, loop: asyncio.AbstractEventLoop, metrics: Metrics) -> Feed:
    source = BrokerSource(broker, loop.call_soon)
    source.follow()
    feed = Feed(source)
    try:
        guard = Guard(host, broker.config.kohort_http_token or None)
    except WrongToken as problem:
        raise ConfigError([f"kohort.http.token: {problem}"]) from None
    add_live_page(site, feed, guard)
    metrics.more.append(lambda: group_lines(source))
    return feed
