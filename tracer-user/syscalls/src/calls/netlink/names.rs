//! Names of values that several parts of a message have.

use crate::calls::flags;

/// Names of values.
pub type Names = &'static [(&'static str, u64)];

/// Names of bits.
pub type Flags = &'static [(&'static str, u64)];

/// Returns the name of a value; one without a name in hexadecimal.
pub fn name_of(names: Names, value: u64) -> String {
    match names.iter().find(|(_, known)| *known == value) {
        Some((name, _)) => (*name).to_owned(),
        None if value == 0 => "0".to_owned(),
        None => format!("{value:#x}"),
    }
}

/// Returns the names of bits; where there are none, the name of their absence.
pub fn flags_of(names: Flags, bits: u64) -> String {
    let none = names.iter().find(|(_, flag)| *flag == 0);
    flags(bits, names, none.map_or("0", |(name, _)| name))
}

/// Address families, as `bits/socket.h` has them.
pub const FAMILIES: Names = &[
    ("AF_UNSPEC", 0),
    ("AF_UNIX", 1),
    ("AF_INET", 2),
    ("AF_AX25", 3),
    ("AF_IPX", 4),
    ("AF_APPLETALK", 5),
    ("AF_NETROM", 6),
    ("AF_BRIDGE", 7),
    ("AF_ATMPVC", 8),
    ("AF_X25", 9),
    ("AF_INET6", 10),
    ("AF_NETLINK", 16),
    ("AF_PACKET", 17),
    ("AF_CAN", 29),
    ("AF_MPLS", 28),
    ("AF_BLUETOOTH", 31),
    ("AF_IEEE802154", 36),
    ("AF_VSOCK", 40),
    ("AF_MCTP", 45),
];

/// Types of routes, as `linux/rtnetlink.h` has them.
pub const ROUTE_TYPES: Names = &[
    ("RTN_UNSPEC", 0),
    ("RTN_UNICAST", 1),
    ("RTN_LOCAL", 2),
    ("RTN_BROADCAST", 3),
    ("RTN_ANYCAST", 4),
    ("RTN_MULTICAST", 5),
    ("RTN_BLACKHOLE", 6),
    ("RTN_UNREACHABLE", 7),
    ("RTN_PROHIBIT", 8),
    ("RTN_THROW", 9),
    ("RTN_NAT", 10),
    ("RTN_XRESOLVE", 11),
];

/// Tables of routes.
pub const TABLES: Names = &[
    ("RT_TABLE_UNSPEC", 0),
    ("RT_TABLE_COMPAT", 252),
    ("RT_TABLE_DEFAULT", 253),
    ("RT_TABLE_MAIN", 254),
    ("RT_TABLE_LOCAL", 255),
];

/// Makers of a route.
pub const PROTOCOLS: Names = &[
    ("RTPROT_UNSPEC", 0),
    ("RTPROT_REDIRECT", 1),
    ("RTPROT_KERNEL", 2),
    ("RTPROT_BOOT", 3),
    ("RTPROT_STATIC", 4),
    ("RTPROT_GATED", 8),
    ("RTPROT_RA", 9),
    ("RTPROT_MRT", 10),
    ("RTPROT_ZEBRA", 11),
    ("RTPROT_BIRD", 12),
    ("RTPROT_DNROUTED", 13),
    ("RTPROT_XORP", 14),
    ("RTPROT_NTK", 15),
    ("RTPROT_DHCP", 16),
    ("RTPROT_MROUTED", 17),
    ("RTPROT_KEEPALIVED", 18),
    ("RTPROT_BABEL", 42),
    ("RTPROT_OPENR", 99),
    ("RTPROT_BGP", 186),
    ("RTPROT_ISIS", 187),
    ("RTPROT_OSPF", 188),
    ("RTPROT_RIP", 189),
    ("RTPROT_EIGRP", 192),
];

/// Scopes of addresses and routes.
pub const SCOPES: Names = &[
    ("RT_SCOPE_UNIVERSE", 0),
    ("RT_SCOPE_SITE", 200),
    ("RT_SCOPE_LINK", 253),
    ("RT_SCOPE_HOST", 254),
    ("RT_SCOPE_NOWHERE", 255),
];

/// Bits of an address.
pub const ADDRESS_FLAGS: Flags = &[
    ("IFA_F_SECONDARY", 1),
    ("IFA_F_NODAD", 2),
    ("IFA_F_OPTIMISTIC", 4),
    ("IFA_F_DADFAILED", 8),
    ("IFA_F_HOMEADDRESS", 0x10),
    ("IFA_F_DEPRECATED", 0x20),
    ("IFA_F_TENTATIVE", 0x40),
    ("IFA_F_PERMANENT", 0x80),
    ("IFA_F_MANAGETEMPADDR", 0x100),
    ("IFA_F_NOPREFIXROUTE", 0x200),
    ("IFA_F_MCAUTOJOIN", 0x400),
    ("IFA_F_STABLE_PRIVACY", 0x800),
];

/// Bits of a route.
pub const ROUTE_FLAGS: Flags = &[
    ("RTM_F_NOTIFY", 0x100),
    ("RTM_F_CLONED", 0x200),
    ("RTM_F_EQUALIZE", 0x400),
    ("RTM_F_PREFIX", 0x800),
    ("RTM_F_LOOKUP_TABLE", 0x1000),
    ("RTM_F_FIB_MATCH", 0x2000),
    ("RTM_F_OFFLOAD", 0x4000),
    ("RTM_F_TRAP", 0x8000),
    ("RTM_F_OFFLOAD_FAILED", 0x2000_0000),
];

/// States of a neighbour.
pub const NEIGHBOUR_STATES: Flags = &[
    ("NUD_INCOMPLETE", 1),
    ("NUD_REACHABLE", 2),
    ("NUD_STALE", 4),
    ("NUD_DELAY", 8),
    ("NUD_PROBE", 0x10),
    ("NUD_FAILED", 0x20),
    ("NUD_NOARP", 0x40),
    ("NUD_PERMANENT", 0x80),
    ("NUD_NONE", 0),
];

/// Bits of a neighbour.
pub const NEIGHBOUR_FLAGS: Flags = &[
    ("NTF_USE", 1),
    ("NTF_SELF", 2),
    ("NTF_MASTER", 4),
    ("NTF_PROXY", 8),
    ("NTF_EXT_LEARNED", 0x10),
    ("NTF_OFFLOADED", 0x20),
    ("NTF_STICKY", 0x40),
    ("NTF_ROUTER", 0x80),
];

/// Actions of a rule.
pub const RULE_ACTIONS: Names = &[
    ("FR_ACT_UNSPEC", 0),
    ("FR_ACT_TO_TBL", 1),
    ("FR_ACT_GOTO", 2),
    ("FR_ACT_NOP", 3),
    ("FR_ACT_RES3", 4),
    ("FR_ACT_RES4", 5),
    ("FR_ACT_BLACKHOLE", 6),
    ("FR_ACT_UNREACHABLE", 7),
    ("FR_ACT_PROHIBIT", 8),
];

/// Bits of a rule.
pub const RULE_FLAGS: Flags = &[
    ("FIB_RULE_PERMANENT", 1),
    ("FIB_RULE_INVERT", 2),
    ("FIB_RULE_UNRESOLVED", 4),
    ("FIB_RULE_IIF_DETACHED", 8),
    ("FIB_RULE_OIF_DETACHED", 0x10),
    ("FIB_RULE_FIND_SADDR", 0x1_0000),
];

/// Bits of an interface.
pub const INTERFACE_FLAGS: Flags = &[
    ("IFF_UP", 1),
    ("IFF_BROADCAST", 2),
    ("IFF_DEBUG", 4),
    ("IFF_LOOPBACK", 8),
    ("IFF_POINTOPOINT", 0x10),
    ("IFF_NOTRAILERS", 0x20),
    ("IFF_RUNNING", 0x40),
    ("IFF_NOARP", 0x80),
    ("IFF_PROMISC", 0x100),
    ("IFF_ALLMULTI", 0x200),
    ("IFF_MASTER", 0x400),
    ("IFF_SLAVE", 0x800),
    ("IFF_MULTICAST", 0x1000),
    ("IFF_PORTSEL", 0x2000),
    ("IFF_AUTOMEDIA", 0x4000),
    ("IFF_DYNAMIC", 0x8000),
    ("IFF_LOWER_UP", 0x1_0000),
    ("IFF_DORMANT", 0x2_0000),
    ("IFF_ECHO", 0x4_0000),
];
