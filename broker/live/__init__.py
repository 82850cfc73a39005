"""The live page: what groups do now and did before, in a browser; on the broker's HTTP port, or by `kohort ui`.

Read in this order:

    group.py           one group over time: members, owners of partitions, rebalances, how far its commits have come
    histories.py       all groups, and the bounds on what is kept of them
    log_reader.py      records of __consumer_offsets become history
    view.py            a group as JSON; words.py: a rebalance in words
    rows.py            a line of the overview
    source.py          what the page asks; broker_source.py and log_source.py answer
    feed.py            who watches what: server-sent events
    guard.py           who may look: loopback, or a token
    page_site.py       paths of the page and of the API; the page itself lies in assets/

The log of any Kafka is enough. Kohort's own log says more (who caused a rebalance, and when it began), and a running
broker knows what no log says, such as who is waiting for whom.
"""
