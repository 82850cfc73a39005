"""The pairs of brokers that scenarios are played on: settings of both. A scenario names its pair."""

from __future__ import annotations

CONSUMERS = "consumers"  # groups of KIP-848: assignments without delay, short sessions
FEW_CONSUMERS = "few consumers"  # groups of KIP-848 with limits, which do not change their protocol
UPGRADE = "upgrade only"
DOWNGRADE = "downgrade only"
SHARES = "share groups"  # assignments without delay, short sessions and locks
TRANSACTIONS = "transactions"  # timeouts are looked at often
CRASHES = "crashes"  # brokers that are killed, and started again on their data
OLD_TRANSACTIONS = "old transactions"  # transactional ids and producers expire soon
FEW_SHARES = "few sharers"  # share groups with limits, and with the usual interval between assignments

PAIRS: dict[str, dict[str, str]] = {
    "": {"group.initial.rebalance.delay.ms": "0"},
    "hurried": {
        "group.initial.rebalance.delay.ms": "400",
        "group.min.session.timeout.ms": "100",
        "group.max.size": "2",
        "default.replication.factor": "3",
    },
    CONSUMERS: {
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "100",
        "group.consumer.assignment.interval.ms": "0",
        "group.consumer.min.session.timeout.ms": "500",
        "group.consumer.min.heartbeat.interval.ms": "100",
    },
    FEW_CONSUMERS: {
        "group.initial.rebalance.delay.ms": "0",
        "group.consumer.max.size": "2",
        "group.consumer.assignors": "range",
        "group.consumer.migration.policy": "disabled",
    },
    UPGRADE: {
        "group.initial.rebalance.delay.ms": "0",
        "group.consumer.assignment.interval.ms": "0",
        "group.consumer.max.size": "2",
        "group.consumer.migration.policy": "upgrade",
    },
    DOWNGRADE: {
        "group.initial.rebalance.delay.ms": "0",
        "group.consumer.assignment.interval.ms": "0",
        "group.max.size": "2",
        "group.consumer.migration.policy": "downgrade",
    },
    SHARES: {
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "100",
        "group.consumer.assignment.interval.ms": "0",
        "group.share.assignment.interval.ms": "0",
        "group.share.min.session.timeout.ms": "500",
        "group.share.min.heartbeat.interval.ms": "100",
        "group.share.min.record.lock.duration.ms": "1000",
    },
    FEW_SHARES: {
        "group.initial.rebalance.delay.ms": "0",
        "group.consumer.assignment.interval.ms": "0",
        "group.share.max.size": "2",
        "group.share.max.share.sessions": "2",
    },
    TRANSACTIONS: {
        "group.initial.rebalance.delay.ms": "0",
        "group.consumer.assignment.interval.ms": "0",
        "group.share.assignment.interval.ms": "0",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
    },
    OLD_TRANSACTIONS: {
        "group.initial.rebalance.delay.ms": "0",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
        "transactional.id.expiration.ms": "1000",
        "transaction.remove.expired.transaction.cleanup.interval.ms": "100",
        "producer.id.expiration.ms": "500",
        "producer.id.expiration.check.interval.ms": "100",
        "offsets.retention.check.interval.ms": "100",
    },
    CRASHES: {
        "group.initial.rebalance.delay.ms": "0",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
    },
}
