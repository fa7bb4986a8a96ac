"""What security groups and network ACLs let through: which rules match HTTPS, and which of them decides."""

from __future__ import annotations

from typing import Any

import pytest

from constructs_optim.runtime.preflight.traffic_filters import acl_reach, groups_reach, reach_of


@pytest.mark.parametrize(
    ("cidr", "reach"),
    [
        ("0.0.0.0/0", "anything"),
        ("10.0.0.0/8", "private"),
        ("10.1.2.3/16", "private"),
        ("100.64.0.0/10", "private"),
        ("100.128.0.0/10", "anything"),
        ("127.0.0.1/32", "private"),
        ("169.254.169.254/32", "private"),
        ("169.255.0.0/16", "anything"),
        ("172.16.0.0/12", "private"),
        ("172.16.0.0/11", "anything"),
        ("192.168.0.0/16", "private"),
        ("192.0.0.0/8", "anything"),
        ("240.0.0.0/4", "private"),
        ("255.255.255.255/32", "private"),
        ("1.1.1.1/32", "anything"),
        ("::/0", "anything"),
        ("${Cidr}", "anything"),
        ({"Ref": "Cidr"}, "anything"),
        (None, "anything"),
    ],
)
def test_a_range_is_private_if_all_its_addresses_are(cidr: object, reach: str) -> None:
    assert reach_of(cidr) == reach


def rule(**changed: Any) -> dict[str, Any]:
    return {"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443, "CidrIpv4": "0.0.0.0/0", **changed}


@pytest.mark.parametrize(
    ("rules", "reach"),
    [
        ([], "nothing"),
        ([rule()], "anything"),
        ([rule(IpProtocol="-1", FromPort=None, ToPort=None)], "anything"),
        # EC2 ignores the ports of a rule for all protocols; 0 to 0 is the usual form.
        ([rule(IpProtocol="-1", FromPort=0, ToPort=0)], "anything"),
        ([rule(IpProtocol="-1", FromPort=0, ToPort=0, CidrIpv4="10.0.0.0/16")], "private"),
        ([rule(IpProtocol="tcp", FromPort=0, ToPort=0)], "nothing"),
        ([rule(IpProtocol="6", FromPort="0", ToPort="65535")], "anything"),
        ([rule(FromPort=-1, ToPort=-1)], "anything"),
        ([rule(IpProtocol="udp")], "nothing"),
        ([rule(IpProtocol="icmp", FromPort=252, ToPort=86, CidrIpv4="255.255.255.255/32")], "nothing"),
        ([rule(FromPort=80, ToPort=80)], "nothing"),
        ([rule(FromPort=1024, ToPort=65535)], "nothing"),
        ([rule(FromPort=0, ToPort=442)], "nothing"),
        ([rule(FromPort=444, ToPort=65535)], "nothing"),
        ([rule(CidrIpv4="10.0.0.0/16")], "private"),
        ([rule(CidrIpv4=None, ReferencedGroupInfo={"GroupId": "sg-1"})], "private"),
        ([rule(CidrIpv4=None, PrefixListId="pl-1")], "anything"),
        ([rule(CidrIpv4="10.0.0.0/16"), rule(IpProtocol=None)], "anything"),
        ([rule(FromPort={"Ref": "Port"})], "anything"),
    ],
)
def test_security_groups_let_https_go_where_one_of_their_rules_does(rules: list[dict[str, Any]], reach: str) -> None:
    assert groups_reach(rules) == reach


def entry(number: Any = 100, **changed: Any) -> dict[str, Any]:
    stated = {"RuleNumber": number, "Egress": True, "Protocol": "-1", "RuleAction": "allow", "CidrBlock": "0.0.0.0/0"}
    return {**stated, **changed}


IN = entry(Egress=False)
DENY: dict[str, Any] = {"RuleAction": "deny"}
RESPONSES: dict[str, Any] = {"Egress": False, "Protocol": "6"}


@pytest.mark.parametrize(
    ("entries", "reach"),
    [
        ([], "nothing"),
        ([entry()], "nothing"),
        ([IN], "nothing"),
        ([entry(), IN], "anything"),
        ([entry(Protocol="6", PortRange={"From": 443, "To": 443}), IN], "anything"),
        ([entry(Protocol="17"), IN], "nothing"),
        ([entry(PortRange={"From": 0, "To": 0}), entry(Egress=False, PortRange={"From": 0, "To": 0})], "anything"),
        ([entry(Protocol="6", PortRange={"From": 0, "To": 0}), IN], "nothing"),
        ([entry(Protocol="6", PortRange={"From": 80, "To": 80}), IN], "nothing"),
        ([entry(), entry(Egress=False, Protocol="6", PortRange={"From": 1024, "To": 65535})], "anything"),
        ([entry(), entry(Egress=False, Protocol="6", PortRange={"From": 443, "To": 443})], "nothing"),
        ([entry(), entry(Egress=False, Protocol="6", PortRange={"From": 0, "To": 1024})], "anything"),
        ([entry(), entry(Egress=False, Protocol="6", PortRange={"From": 0, "To": 1023})], "nothing"),
        ([entry(CidrBlock="10.0.0.0/16"), IN], "private"),
        # The first that matches decides.
        ([entry(), IN, entry(1, **DENY)], "nothing"),
        ([entry(), IN, entry(200, **DENY)], "anything"),
        ([entry(), IN, entry("1", **DENY)], "nothing"),
        ([entry(), IN, entry(1, PortRange={"From": 0, "To": 0}, **DENY)], "nothing"),
        ([entry(), IN, entry(1, Protocol="6", PortRange={"From": 0, "To": 65535}, **DENY)], "nothing"),
        ([entry(), IN, entry(1, Protocol="6", PortRange={"From": 443, "To": 443}, **DENY)], "nothing"),
        ([entry(), IN, entry(1, **RESPONSES, PortRange={"From": 1024, "To": 65535}, **DENY)], "nothing"),
        # These do not match everything, or may not.
        ([entry(), IN, entry(1, Protocol="6", PortRange={"From": 444, "To": 65535}, **DENY)], "anything"),
        ([entry(), IN, entry(1, **RESPONSES, PortRange={"From": 1025, "To": 65535}, **DENY)], "anything"),
        ([entry(), IN, entry(1, **RESPONSES, PortRange={"From": 1024, "To": 65534}, **DENY)], "anything"),
        ([entry(), IN, entry(1, CidrBlock="10.0.0.0/8", **DENY)], "anything"),
        ([entry(), IN, entry(1, Protocol="6", PortRange={"From": 22, "To": 22}, **DENY)], "anything"),
        ([entry(), IN, entry(1, Protocol="6", PortRange={"Fn::If": []}, **DENY)], "anything"),
        ([entry(), IN, entry(1, Protocol=None, **DENY)], "anything"),
        ([entry(), IN, entry(1, Egress=None, **DENY)], "anything"),
        ([entry(), IN, entry({"Ref": "Number"}, **DENY)], "anything"),
        ([entry(), IN, entry(1, CidrBlock=None, Ipv6CidrBlock="::/0", **DENY)], "anything"),
        ([entry(200, RuleAction={"Ref": "Action"}), IN, entry(300, **DENY)], "anything"),
    ],
)
def test_a_network_acl_lets_https_work_with_requests_out_and_responses_in(
    entries: list[dict[str, Any]], reach: str
) -> None:
    assert acl_reach(entries) == reach
