"""What security groups and network ACLs let through, from rules in the form in which EC2 describes them.

Only synthesis knows them, from a template: the preflight's role may not describe them. Sources: EC2 API reference,
SecurityGroupRule, NetworkAclEntry, IpPermission and CreateNetworkAclEntry (a rule for all protocols, -1, is for all
ports, whichever it names); Amazon VPC user guide, "Security group rules", "Network ACL basics" (the first entry that
matches decides), "Custom network ACLs" (responses come to the ports 1024 to 65535).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from ipaddress import IPv4Network, ip_network
from typing import Any, Literal

Reach = Literal["nothing", "private", "anything"]
REACHES: tuple[Reach, ...] = ("nothing", "private", "anything")
"""What addresses a rule lets through: none, private ones, or any. Each includes those before it."""
_PORTS = {"to": (443, 443), "from": (1024, 65535)}
# Ranges without an address of the internet or of an AWS service.
_PRIVATE = tuple(
    IPv4Network(each)
    for each in (
        "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16",
        "240.0.0.0/4",
    )
)  # fmt: skip


def reach_of(cidr: object) -> Reach:
    """Return whether a range of addresses is private; one that is not known may be any."""
    try:
        network = ip_network(cidr, strict=False) if isinstance(cidr, str) else None
    except ValueError:
        network = None
    is_private = isinstance(network, IPv4Network) and any(network.subnet_of(each) for each in _PRIVATE)
    return "private" if is_private else "anything"


def widest(reaches: Iterable[Reach]) -> Reach:
    """Return the widest of several reaches; nothing without any."""
    return REACHES[max(map(REACHES.index, reaches), default=0)]


def groups_reach(rules: Sequence[Mapping[str, Any]]) -> Reach:
    """Return where security groups let HTTPS go: ``rules`` are the ``SecurityGroupRules`` of all of them."""
    return widest(
        "private" if "ReferencedGroupInfo" in rule else reach_of(rule.get("CidrIpv4"))
        for rule in rules
        if _matches(rule.get("IpProtocol"), rule.get("FromPort"), rule.get("ToPort"), "to")
    )


def acl_reach(entries: Sequence[Mapping[str, Any]]) -> Reach:
    """Return with what addresses a network ACL lets HTTPS work: requests go out, and responses come in."""
    outward = _reach(entries, "to", egress=True)
    inward = _reach(entries, "from", egress=False)
    return REACHES[min(REACHES.index(outward), REACHES.index(inward))]


def _reach(entries: Sequence[Mapping[str, Any]], ports: str, *, egress: bool) -> Reach:
    allowed: list[Reach] = []
    for entry in sorted((each for each in entries if each.get("Egress") in (egress, None)), key=_order):
        spread = _ports(entry)
        if not _matches(entry.get("Protocol"), spread.get("From"), spread.get("To"), ports):
            continue
        if entry.get("RuleAction") != "deny":
            allowed.append(reach_of(entry.get("CidrBlock")))
        elif _denies_all(entry, ports, egress=egress):
            break
    return widest(allowed)


def _denies_all(entry: Mapping[str, Any], ports: str, *, egress: bool) -> bool:
    """Return whether an entry certainly matches all that later entries could allow."""
    if entry.get("CidrBlock") != "0.0.0.0/0" or entry.get("Egress") is not egress:
        return False
    spread, (low, high) = _ports(entry), _PORTS[ports]
    lowest, highest = _number(spread.get("From")), _number(spread.get("To"))
    covers = lowest is not None and highest is not None and lowest <= low and high <= highest
    return entry.get("Protocol") == "-1" or (entry.get("Protocol") == "6" and (not spread or covers))


def _ports(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    return entry.get("PortRange") or {}


def _order(entry: Mapping[str, Any]) -> float:
    """Return a rule's number; if that is not known, what allows counts first, and what denies last."""
    number = _number(entry.get("RuleNumber"))
    return number if number is not None else float("inf" if entry.get("RuleAction") == "deny" else "-inf")


def _matches(protocol: object, first: object, last: object, ports: str) -> bool:
    """Return whether a rule may match TCP at some of the ports. EC2 ignores the ports of a rule for all protocols."""
    if not isinstance(protocol, str) or protocol == "-1":
        return True
    if protocol.lower() not in ("6", "tcp"):
        return False
    low, high = _PORTS[ports]
    lowest, highest = _number(first), _number(last)
    return lowest is None or highest is None or -1 in (lowest, highest) or (lowest <= high and low <= highest)


def _number(value: object) -> int | None:
    try:
        return int(value) if isinstance(value, int | str) else None
    except ValueError:
        return None
