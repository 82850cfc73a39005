"""Transactions inside the broker: the transaction coordinator, the markers it sends, and the APIs about it."""
