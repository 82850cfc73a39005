"""`kohort groups`: list, describe and delete groups, reset and delete their offsets; on Kohort or on Apache Kafka."""

from __future__ import annotations

import argparse
import json
from typing import Any

from kohort.broker.commands.common import add_action, option, with_cluster
from kohort.broker.commands.delete_offsets import add_delete_offsets_arguments, delete_offsets
from kohort.broker.commands.list_groups import add_list_arguments, list_groups
from kohort.broker.commands.reset_offsets import add_reset_arguments, check_reset_options, reset_offsets
from kohort.broker.terminal import complain, table
from kohort.client import ask
from kohort.client.answers import error_name, why
from kohort.client.cluster import Cluster
from kohort.client.group_view import MemberView, partition_rows, view
from kohort.client.share_group_view import share_rows, share_view
from kohort.printable import printable
from kohort.protocol.api_keys import ApiKey

# The states of all kinds of groups, as Kafka spells them. For a state that it does not know, a broker lists no groups.
STATES = (
    "Assigning", "CompletingRebalance", "Dead", "Empty", "NotReady", "PreparingRebalance", "Reconciling", "Stable"
)  # fmt: skip

OFFSET_HEADS = ("TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST", "CLIENT-ID")
NAME_HEADS = ("CONSUMER-ID", "INSTANCE-ID", "HOST", "CLIENT-ID")
MEMBER_HEADS = (*NAME_HEADS, "#PARTITIONS", "ASSIGNMENT")
CONSUMER_MEMBER_HEADS = (*NAME_HEADS, "PROTOCOL", "EPOCH", "STATE", "#PARTITIONS", "ASSIGNMENT", "TO-REVOKE", "TO-COME")
SHARE_HEADS = (
    "TOPIC", "PARTITION", "START-OFFSET", "LOG-END-OFFSET", "LAG", "RETURNED", "DELIVERIES", "#MEMBERS",
)  # fmt: skip
SHARE_MEMBER_HEADS = ("CONSUMER-ID", "HOST", "CLIENT-ID", "EPOCH", "STATE", "#PARTITIONS", "ASSIGNMENT")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    listed = add_action(
        actions, "list", "list all groups, with type, state, members and lag", with_cluster(list_groups)
    )
    listed.add_argument(
        "--state", action="extend", type=option(_states), default=[], metavar="STATE[,STATE]",
        help="only groups in one of these states: " + ", ".join(STATES),
    )  # fmt: skip
    add_list_arguments(listed)
    described = add_action(
        actions, "describe", "show state, members, offsets and lag of groups", with_cluster(_describe)
    )
    described.add_argument("group", nargs="*", metavar="GROUP", help="default: all groups")
    described.add_argument("--members", action="store_true", help="show members and what each of them owns")
    deleted = add_action(
        actions, "delete", "delete groups that have no members, with their offsets", with_cluster(_delete)
    )
    deleted.add_argument("group", nargs="+", metavar="GROUP", help="groups without members")
    forget = add_action(
        actions, "delete-offsets", "delete a group's offsets of topics that it does not consume",
        with_cluster(delete_offsets),
    )  # fmt: skip
    add_delete_offsets_arguments(forget)
    reset = add_action(actions, "reset-offsets", "set the offsets from which a group will go on", _reset)
    add_reset_arguments(reset)


def _reset(options: argparse.Namespace) -> int:
    check_reset_options(options)
    return with_cluster(reset_offsets)(options)


def _states(text: str) -> list[str]:
    states = [state.strip() for state in text.split(",")]
    known = [state.lower() for state in STATES]
    for state in states:
        if state.lower() not in known:
            raise ValueError(f"{state!r} is not a state: groups are {', '.join(STATES[:-1])} or {STATES[-1]}")
    return states


def _describe(cluster: Cluster, options: argparse.Namespace) -> int:
    names = options.group or [group.group_id for group in ask.list_groups(cluster)]
    shown = [_description(cluster, name) for name in names]
    if options.json:
        print(json.dumps(shown, indent=2))
    elif not names:
        complain("there are no groups")
    else:
        for group in shown:
            _print_group(group, options.members)
    missing = [group["group"] for group in shown if group["state"] == ask.DEAD]
    for name in missing:
        complain(f"group {name} does not exist")
    return 1 if missing else 0


def _description(cluster: Cluster, name: str) -> dict[str, Any]:
    group = view(cluster, name)
    if group.type == ask.SHARE and cluster.coordinator(name).offers(ApiKey.SHARE_GROUP_DESCRIBE):
        return _share_description(cluster, name)
    shown = {
        "group": name,
        "type": group.type,
        "state": group.state,
        "protocol_type": group.protocol_type,
        "assignor": group.assignor,
        "epoch": group.epoch,  # null: the group is classic
        "target_epoch": group.target_epoch,
        "members": None if group.members is None else [_member(member) for member in group.members],  # null: not told
    }
    return shown | {"partitions": [row._asdict() for row in partition_rows(cluster, group)]}


def _share_description(cluster: Cluster, name: str) -> dict[str, Any]:
    group = share_view(cluster, name)
    return {
        "group": name,
        "type": ask.SHARE,
        "state": group.state,
        "protocol_type": ask.SHARE,
        "assignor": group.assignor,
        "epoch": group.epoch,
        "target_epoch": group.target_epoch,
        "members": [member._asdict() for member in group.members],
        "partitions": [row._asdict() for row in share_rows(cluster, group)],
    }


def _member(member: MemberView) -> dict[str, Any]:
    shown = member._asdict()
    reconciliation = shown.pop("reconciliation")
    return shown if reconciliation is None else shown | reconciliation._asdict()


def _print_group(group: dict[str, Any], members: bool) -> None:
    if group["state"] == ask.DEAD:
        return
    kind = f"{group['type']} group" if group["type"] != ask.CLASSIC else "group"
    count = "its members are not shown" if group["members"] is None else _count(len(group["members"]))
    words = [f"{kind} {group['group']}: {group['state']}", count]
    if group["assignor"]:
        words.append(f"assignor {group['assignor']}")
    if group["epoch"] is not None:
        words.append(f"epoch {group['epoch']}, target of epoch {group['target_epoch']}")
    print(printable(", ".join(words)))
    if group["type"] == ask.SHARE and group["members"] is not None:
        _print_share_group(group, members)
    elif members and group["members"] is not None:
        heads = MEMBER_HEADS if group["epoch"] is None else CONSUMER_MEMBER_HEADS
        print(table(heads, [_member_row(member) for member in group["members"]]))
    else:
        print(table(OFFSET_HEADS, [tuple(row.values()) for row in group["partitions"]]))
    print()


def _print_share_group(group: dict[str, Any], members: bool) -> None:
    if not members:
        print(table(SHARE_HEADS, [tuple(row.values()) for row in group["partitions"]]))
        return
    rows = [
        (
            member["member_id"], member["host"], member["client_id"], member["epoch"], member["state"],
            len(member["partitions"]), _places(member["partitions"]),
        )
        for member in group["members"]
    ]  # fmt: skip
    print(table(SHARE_MEMBER_HEADS, rows))


def _count(members: int) -> str:
    return "1 member" if members == 1 else f"{members} members"


def _member_row(member: dict[str, Any]) -> tuple[Any, ...]:
    names = member["member_id"], member["instance_id"], member["host"], member["client_id"]
    has = len(member["partitions"]), _places(member["partitions"])
    if "epoch" not in member:
        return (*names, *has)
    way = _places(member["to_revoke"]), _places(member["to_come"])
    return (*names, member["protocol"], member["epoch"], member["state"], *has, *way)


def _places(partitions: list[tuple[str, int]]) -> str | None:
    found = ask.by_topic(partitions)
    return " ".join(f"{topic}({','.join(map(str, sorted(found[topic])))})" for topic in sorted(found)) or None


def _delete(cluster: Cluster, options: argparse.Namespace) -> int:
    results = ask.delete_groups(cluster, options.group)
    if options.json:
        print(json.dumps([{"group": r.group_id, "error": error_name(r.error_code)} for r in results]))
    for result in results:
        if result.error_code:
            complain(f"{result.group_id}: {why(result.error_code)}")
        elif not options.json:
            print(printable(f"deleted {result.group_id}"))
    return 1 if any(result.error_code for result in results) else 0
