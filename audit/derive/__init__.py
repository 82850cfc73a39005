"""Base tables -> ownership, rebalances, facts about partitions."""
