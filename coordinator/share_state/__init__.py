"""The share coordinator (KIP-932): it keeps how far each share group has come, in __share_group_state."""
