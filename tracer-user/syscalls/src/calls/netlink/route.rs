//! Messages of `NETLINK_ROUTE`: a struct, and attributes behind it.

use super::attributes::NetlinkValue::{
    Address, Bytes, Flags32, Hardware, I32, Named8, Named32, Nested, Port, Struct, Text, U8, U16,
    U32, U64,
};
use super::attributes::{self, NetlinkAttributes};
use super::fields::{self, NetlinkKind, NetlinkMember};
use super::link;
use super::names::{
    ADDRESS_FLAGS, FAMILIES, INTERFACE_FLAGS, NEIGHBOUR_FLAGS, NEIGHBOUR_STATES, Names, PROTOCOLS,
    ROUTE_FLAGS, ROUTE_TYPES, RULE_ACTIONS, RULE_FLAGS, SCOPES, TABLES, name_of,
};
use super::part::Part;

/// `RTM_DELACTION`, whose flags are those of a question.
pub const DELETE_ACTION: u16 = 49;

/// Layout of a message: the kinds that have it, its struct, and the attributes that follow.
struct Layout {
    kinds: std::ops::RangeInclusive<u16>,
    members: &'static [NetlinkMember],
    attributes: NetlinkAttributes,
}

const LAYOUTS: &[Layout] = &[
    Layout {
        kinds: 16..=19,
        members: LINK,
        attributes: link::ATTRIBUTES,
    },
    Layout {
        kinds: 20..=22,
        members: ADDRESS,
        attributes: ADDRESS_ATTRIBUTES,
    },
    Layout {
        kinds: 24..=26,
        members: ROUTE,
        attributes: ROUTE_ATTRIBUTES,
    },
    Layout {
        kinds: 28..=30,
        members: NEIGHBOUR,
        attributes: NEIGHBOUR_ATTRIBUTES,
    },
    Layout {
        kinds: 32..=34,
        members: RULE,
        attributes: RULE_ATTRIBUTES,
    },
    Layout {
        kinds: 58..=58,
        members: ADDRESS,
        attributes: ADDRESS_ATTRIBUTES,
    },
    Layout {
        kinds: 62..=62,
        members: ADDRESS,
        attributes: ADDRESS_ATTRIBUTES,
    },
    Layout {
        kinds: 88..=90,
        members: NAMESPACE,
        attributes: NAMESPACE_ATTRIBUTES,
    },
];

/// Renders the payload behind the header of a message of this kind.
pub fn payload(kind: u16, part: Part<'_>) -> String {
    let Some(family) = part.read().slice().first().copied() else {
        return "...".to_owned();
    };
    let layout = LAYOUTS.iter().find(|layout| layout.kinds.contains(&kind));
    let Some(layout) = layout else {
        return of_family(family, part);
    };
    let size = fields::size(layout.members);
    let mut shown = match part.has(size) {
        // Of one that is too short, its family alone is looked at.
        None => {
            let name = layout.members.first().map_or("family", |(name, _)| name);
            format!("{{{name}={}, ...}}", name_of(FAMILIES, family.into()))
        }
        Some(_) => fields::shown(layout.members, part.first(size)),
    };
    let rest = part.from(size.next_multiple_of(4));
    if rest.length() > 0 {
        shown.push_str(", ");
        shown.push_str(&attributes::shown(layout.attributes, family, rest));
    }
    shown
}

/// Renders a payload of which only the family is known.
fn of_family(family: u8, part: Part<'_>) -> String {
    let family = name_of(FAMILIES, family.into());
    let rest = part.from(1);
    if rest.length() == 0 {
        return format!("{{family={family}}}");
    }
    format!("{{family={family}, {}}}", rest.in_hex())
}

/// `struct ifinfomsg`.
const LINK: &[NetlinkMember] = &[
    ("ifi_family", NetlinkKind::Family),
    ("", NetlinkKind::Padding(1)),
    ("ifi_type", NetlinkKind::Device),
    ("ifi_index", NetlinkKind::I32),
    ("ifi_flags", NetlinkKind::Flags32(INTERFACE_FLAGS)),
    ("ifi_change", NetlinkKind::Hex32),
];

/// `struct ifaddrmsg`.
const ADDRESS: &[NetlinkMember] = &[
    ("ifa_family", NetlinkKind::Family),
    ("ifa_prefixlen", NetlinkKind::U8),
    ("ifa_flags", NetlinkKind::Flags8(ADDRESS_FLAGS)),
    ("ifa_scope", NetlinkKind::Named8(SCOPES)),
    ("ifa_index", NetlinkKind::U32),
];

/// `struct rtmsg`.
const ROUTE: &[NetlinkMember] = &[
    ("rtm_family", NetlinkKind::Family),
    ("rtm_dst_len", NetlinkKind::U8),
    ("rtm_src_len", NetlinkKind::U8),
    ("rtm_tos", NetlinkKind::Hex8),
    ("rtm_table", NetlinkKind::Named8(TABLES)),
    ("rtm_protocol", NetlinkKind::Named8(PROTOCOLS)),
    ("rtm_scope", NetlinkKind::Named8(SCOPES)),
    ("rtm_type", NetlinkKind::Named8(ROUTE_TYPES)),
    ("rtm_flags", NetlinkKind::Flags32(ROUTE_FLAGS)),
];

/// `struct ndmsg`.
const NEIGHBOUR: &[NetlinkMember] = &[
    ("ndm_family", NetlinkKind::Family),
    ("", NetlinkKind::Padding(3)),
    ("ndm_ifindex", NetlinkKind::I32),
    ("ndm_state", NetlinkKind::Flags16(NEIGHBOUR_STATES)),
    ("ndm_flags", NetlinkKind::Flags8(NEIGHBOUR_FLAGS)),
    ("ndm_type", NetlinkKind::Named8(ROUTE_TYPES)),
];

/// `struct fib_rule_hdr`.
const RULE: &[NetlinkMember] = &[
    ("family", NetlinkKind::Family),
    ("dst_len", NetlinkKind::U8),
    ("src_len", NetlinkKind::U8),
    ("tos", NetlinkKind::Hex8),
    ("table", NetlinkKind::Named8(TABLES)),
    ("", NetlinkKind::Padding(2)),
    ("action", NetlinkKind::Named8(RULE_ACTIONS)),
    ("flags", NetlinkKind::Flags32(RULE_FLAGS)),
];

/// `struct rtgenmsg`.
const NAMESPACE: &[NetlinkMember] = &[("rtgen_family", NetlinkKind::Family)];

/// `struct ifa_cacheinfo`.
const ADDRESS_CACHE: &[NetlinkMember] = &[
    ("ifa_prefered", NetlinkKind::U32),
    ("ifa_valid", NetlinkKind::U32),
    ("cstamp", NetlinkKind::U32),
    ("tstamp", NetlinkKind::U32),
];

/// `struct rta_cacheinfo`.
const ROUTE_CACHE: &[NetlinkMember] = &[
    ("rta_clntref", NetlinkKind::U32),
    ("rta_lastuse", NetlinkKind::U32),
    ("rta_expires", NetlinkKind::I32),
    ("rta_error", NetlinkKind::U32),
    ("rta_used", NetlinkKind::U32),
    ("rta_id", NetlinkKind::U32),
    ("rta_ts", NetlinkKind::U32),
    ("rta_tsage", NetlinkKind::U32),
];

/// `struct nda_cacheinfo`.
const NEIGHBOUR_CACHE: &[NetlinkMember] = &[
    ("ndm_confirmed", NetlinkKind::U32),
    ("ndm_used", NetlinkKind::U32),
    ("ndm_updated", NetlinkKind::U32),
    ("ndm_refcnt", NetlinkKind::U32),
];

/// Attributes of an address, as `linux/if_addr.h` has them.
const ADDRESS_ATTRIBUTES: NetlinkAttributes = &[
    ("IFA_UNSPEC", Bytes),
    ("IFA_ADDRESS", Address),
    ("IFA_LOCAL", Address),
    ("IFA_LABEL", Text),
    ("IFA_BROADCAST", Address),
    ("IFA_ANYCAST", Address),
    ("IFA_CACHEINFO", Struct(ADDRESS_CACHE)),
    ("IFA_MULTICAST", Address),
    ("IFA_FLAGS", Flags32(ADDRESS_FLAGS)),
    ("IFA_RT_PRIORITY", U32),
    ("IFA_TARGET_NETNSID", I32),
    ("IFA_PROTO", Bytes),
];

/// Attributes of a route, as `linux/rtnetlink.h` has them.
const ROUTE_ATTRIBUTES: NetlinkAttributes = &[
    ("RTA_UNSPEC", Bytes),
    ("RTA_DST", Address),
    ("RTA_SRC", Address),
    ("RTA_IIF", U32),
    ("RTA_OIF", U32),
    ("RTA_GATEWAY", Address),
    ("RTA_PRIORITY", U32),
    ("RTA_PREFSRC", Address),
    ("RTA_METRICS", Nested(METRICS)),
    ("RTA_MULTIPATH", Bytes),
    ("RTA_PROTOINFO", Bytes),
    ("RTA_FLOW", U32),
    ("RTA_CACHEINFO", Struct(ROUTE_CACHE)),
    ("RTA_SESSION", Bytes),
    ("RTA_MP_ALGO", Bytes),
    ("RTA_TABLE", Named32(TABLES)),
    ("RTA_MARK", U32),
    ("RTA_MFC_STATS", Bytes),
    ("RTA_VIA", Bytes),
    ("RTA_NEWDST", Address),
    ("RTA_PREF", U8),
    ("RTA_ENCAP_TYPE", Bytes),
    ("RTA_ENCAP", Bytes),
    ("RTA_EXPIRES", U64),
    ("RTA_PAD", Bytes),
    ("RTA_UID", U32),
    ("RTA_TTL_PROPAGATE", U8),
    ("RTA_IP_PROTO", U8),
    ("RTA_SPORT", Port),
    ("RTA_DPORT", Port),
    ("RTA_NH_ID", U32),
];

/// Attributes of a neighbour, as `linux/neighbour.h` has them.
const NEIGHBOUR_ATTRIBUTES: NetlinkAttributes = &[
    ("NDA_UNSPEC", Bytes),
    ("NDA_DST", Address),
    ("NDA_LLADDR", Hardware),
    ("NDA_CACHEINFO", Struct(NEIGHBOUR_CACHE)),
    ("NDA_PROBES", U32),
    ("NDA_VLAN", U16),
    ("NDA_PORT", Port),
    ("NDA_VNI", U32),
    ("NDA_IFINDEX", U32),
    ("NDA_MASTER", U32),
    ("NDA_LINK_NETNSID", I32),
    ("NDA_SRC_VNI", U32),
    ("NDA_PROTOCOL", Bytes),
    ("NDA_NH_ID", U32),
    ("NDA_FDB_EXT_ATTRS", Bytes),
    ("NDA_FLAGS_EXT", Bytes),
    ("NDA_NDM_STATE_MASK", Bytes),
    ("NDA_NDM_FLAGS_MASK", Bytes),
];

/// Attributes of a rule, as `linux/fib_rules.h` has them.
const RULE_ATTRIBUTES: NetlinkAttributes = &[
    ("FRA_UNSPEC", Bytes),
    ("FRA_DST", Address),
    ("FRA_SRC", Address),
    ("FRA_IIFNAME", Text),
    ("FRA_GOTO", U32),
    ("FRA_UNUSED2", Bytes),
    ("FRA_PRIORITY", U32),
    ("FRA_UNUSED3", Bytes),
    ("FRA_UNUSED4", Bytes),
    ("FRA_UNUSED5", Bytes),
    ("FRA_FWMARK", U32),
    ("FRA_FLOW", U32),
    ("FRA_TUN_ID", Bytes),
    ("FRA_SUPPRESS_IFGROUP", U32),
    ("FRA_SUPPRESS_PREFIXLEN", U32),
    ("FRA_TABLE", Named32(TABLES)),
    ("FRA_FWMASK", U32),
    ("FRA_OIFNAME", Text),
    ("FRA_PAD", Bytes),
    ("FRA_L3MDEV", U8),
    ("FRA_UID_RANGE", Bytes),
    ("FRA_PROTOCOL", Named8(PROTOCOLS)),
    ("FRA_IP_PROTO", Bytes),
    ("FRA_SPORT_RANGE", Bytes),
    ("FRA_DPORT_RANGE", Bytes),
];

/// Attributes of a namespace, as `linux/net_namespace.h` has them.
const NAMESPACE_ATTRIBUTES: NetlinkAttributes = &[
    ("NETNSA_NONE", Bytes),
    ("NETNSA_NSID", I32),
    ("NETNSA_PID", U32),
    ("NETNSA_FD", U32),
    ("NETNSA_TARGET_NSID", I32),
    ("NETNSA_CURRENT_NSID", I32),
];

/// Attributes of `RTA_METRICS`.
const METRICS: NetlinkAttributes = &[
    ("RTAX_UNSPEC", Bytes),
    ("RTAX_LOCK", U32),
    ("RTAX_MTU", U32),
    ("RTAX_WINDOW", U32),
    ("RTAX_RTT", U32),
    ("RTAX_RTTVAR", U32),
    ("RTAX_SSTHRESH", U32),
    ("RTAX_CWND", U32),
    ("RTAX_ADVMSS", U32),
    ("RTAX_REORDERING", U32),
    ("RTAX_HOPLIMIT", U32),
    ("RTAX_INITCWND", U32),
    ("RTAX_FEATURES", U32),
    ("RTAX_RTO_MIN", U32),
    ("RTAX_INITRWND", U32),
    ("RTAX_QUICKACK", U32),
    ("RTAX_CC_ALGO", Text),
    ("RTAX_FASTOPEN_NO_COOKIE", U32),
];

/// Kinds of messages.
pub const KINDS: Names = &[
    ("RTM_NEWLINK", 16),
    ("RTM_DELLINK", 17),
    ("RTM_GETLINK", 18),
    ("RTM_SETLINK", 19),
    ("RTM_NEWADDR", 20),
    ("RTM_DELADDR", 21),
    ("RTM_GETADDR", 22),
    ("RTM_NEWROUTE", 24),
    ("RTM_DELROUTE", 25),
    ("RTM_GETROUTE", 26),
    ("RTM_NEWNEIGH", 28),
    ("RTM_DELNEIGH", 29),
    ("RTM_GETNEIGH", 30),
    ("RTM_NEWRULE", 32),
    ("RTM_DELRULE", 33),
    ("RTM_GETRULE", 34),
    ("RTM_NEWQDISC", 36),
    ("RTM_DELQDISC", 37),
    ("RTM_GETQDISC", 38),
    ("RTM_NEWTCLASS", 40),
    ("RTM_DELTCLASS", 41),
    ("RTM_GETTCLASS", 42),
    ("RTM_NEWTFILTER", 44),
    ("RTM_DELTFILTER", 45),
    ("RTM_GETTFILTER", 46),
    ("RTM_NEWACTION", 48),
    ("RTM_DELACTION", 49),
    ("RTM_GETACTION", 50),
    ("RTM_NEWPREFIX", 52),
    ("RTM_GETMULTICAST", 58),
    ("RTM_GETANYCAST", 62),
    ("RTM_NEWNEIGHTBL", 64),
    ("RTM_GETNEIGHTBL", 66),
    ("RTM_SETNEIGHTBL", 67),
    ("RTM_NEWNDUSEROPT", 68),
    ("RTM_NEWADDRLABEL", 72),
    ("RTM_DELADDRLABEL", 73),
    ("RTM_GETADDRLABEL", 74),
    ("RTM_GETDCB", 78),
    ("RTM_SETDCB", 79),
    ("RTM_NEWNETCONF", 80),
    ("RTM_DELNETCONF", 81),
    ("RTM_GETNETCONF", 82),
    ("RTM_NEWMDB", 84),
    ("RTM_DELMDB", 85),
    ("RTM_GETMDB", 86),
    ("RTM_NEWNSID", 88),
    ("RTM_DELNSID", 89),
    ("RTM_GETNSID", 90),
    ("RTM_NEWSTATS", 92),
    ("RTM_GETSTATS", 94),
    ("RTM_SETSTATS", 95),
    ("RTM_NEWCACHEREPORT", 96),
    ("RTM_NEWCHAIN", 100),
    ("RTM_DELCHAIN", 101),
    ("RTM_GETCHAIN", 102),
    ("RTM_NEWNEXTHOP", 104),
    ("RTM_DELNEXTHOP", 105),
    ("RTM_GETNEXTHOP", 106),
    ("RTM_NEWLINKPROP", 108),
    ("RTM_DELLINKPROP", 109),
    ("RTM_GETLINKPROP", 110),
    ("RTM_NEWVLAN", 112),
    ("RTM_DELVLAN", 113),
    ("RTM_GETVLAN", 114),
    ("RTM_NEWNEXTHOPBUCKET", 116),
    ("RTM_DELNEXTHOPBUCKET", 117),
    ("RTM_GETNEXTHOPBUCKET", 118),
    ("RTM_NEWTUNNEL", 120),
    ("RTM_DELTUNNEL", 121),
    ("RTM_GETTUNNEL", 122),
];
