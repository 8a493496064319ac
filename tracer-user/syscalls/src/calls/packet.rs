//! Addresses below those of networks: which device, and which protocol in its packets.

use super::bytes::Bytes;

/// Protocols of packets, as `linux/if_ether.h` has them.
const PROTOCOLS: &[(&str, u16)] = &[
    ("ETH_P_802_3", 0x0001),
    ("ETH_P_AX25", 0x0002),
    ("ETH_P_ALL", 0x0003),
    ("ETH_P_802_2", 0x0004),
    ("ETH_P_CAN", 0x000c),
    ("ETH_P_LOOP", 0x0060),
    ("ETH_P_IP", 0x0800),
    ("ETH_P_ARP", 0x0806),
    ("ETH_P_RARP", 0x8035),
    ("ETH_P_8021Q", 0x8100),
    ("ETH_P_IPV6", 0x86dd),
    ("ETH_P_MPLS_UC", 0x8847),
    ("ETH_P_PPP_DISC", 0x8863),
    ("ETH_P_PPP_SES", 0x8864),
    ("ETH_P_PAE", 0x888e),
    ("ETH_P_8021AD", 0x88a8),
    ("ETH_P_LLDP", 0x88cc),
    ("ETH_P_1588", 0x88f7),
];

/// Kinds of devices, as `linux/if_arp.h` has them.
const DEVICES: &[(&str, u16)] = &[
    ("ARPHRD_NETROM", 0),
    ("ARPHRD_ETHER", 1),
    ("ARPHRD_IEEE802", 6),
    ("ARPHRD_INFINIBAND", 32),
    ("ARPHRD_CAN", 280),
    ("ARPHRD_PPP", 512),
    ("ARPHRD_RAWIP", 519),
    ("ARPHRD_TUNNEL", 768),
    ("ARPHRD_TUNNEL6", 769),
    ("ARPHRD_LOOPBACK", 772),
    ("ARPHRD_SIT", 776),
    ("ARPHRD_IPGRE", 778),
    ("ARPHRD_IEEE80211", 801),
    ("ARPHRD_NETLINK", 824),
    ("ARPHRD_NONE", 0xfffe),
];

/// Name of the type of packets.
const KINDS: [&str; 8] = [
    "PACKET_HOST",
    "PACKET_BROADCAST",
    "PACKET_MULTICAST",
    "PACKET_OTHERHOST",
    "PACKET_OUTGOING",
    "PACKET_LOOPBACK",
    "PACKET_USER",
    "PACKET_KERNEL",
];

fn named(names: &[(&'static str, u16)], value: u16) -> String {
    let known = names.iter().find(|(_, known)| *known == value);
    known.map_or_else(|| format!("{value:#x}"), |(name, _)| (*name).to_owned())
}

/// Renders a protocol of packets: `htons(ETH_P_IP)`.
#[must_use]
pub fn protocol(protocol: u16) -> String {
    format!("htons({})", named(PROTOCOLS, protocol))
}

/// Renders the kind of a device.
pub fn device_kind(kind: u16) -> String {
    named(DEVICES, kind)
}

/// Renders a `struct sockaddr_ll`. Which device has its index is not resolved: it may be one of
/// another network namespace, and was of that moment.
pub fn address(bytes: Bytes<'_>) -> Option<String> {
    let kind = *bytes.slice().get(10)?;
    let length = usize::from(*bytes.slice().get(11)?);
    let known = KINDS.get(usize::from(kind));
    let kind = known.map_or_else(|| format!("{kind:#x}"), |kind| (*kind).to_owned());
    let mut shown = format!(
        "{{sa_family=AF_PACKET, sll_protocol={}, sll_ifindex={}, sll_hatype={}, sll_pkttype={}, \
         sll_halen={length}",
        protocol(bytes.u16_be(2)?),
        bytes.i32(4)?,
        device_kind(bytes.u16(8)?),
        kind,
    );
    if length > 0 {
        let address = bytes.from(12)?.slice();
        let address = address.get(..length).unwrap_or(address).iter();
        let address: Vec<_> = address.map(|byte| format!("{byte:#x}")).collect();
        shown += &format!(", sll_addr=[{}]", address.join(", "));
    }
    shown.push('}');
    Some(shown)
}
