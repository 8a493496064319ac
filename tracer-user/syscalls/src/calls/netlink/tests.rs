use proptest::prelude::*;

use super::*;

fn header(length: u32, kind: u16, flags: u16) -> Vec<u8> {
    let mut bytes = length.to_ne_bytes().to_vec();
    bytes.extend_from_slice(&kind.to_ne_bytes());
    bytes.extend_from_slice(&flags.to_ne_bytes());
    bytes.extend_from_slice(&7_u32.to_ne_bytes());
    bytes.extend_from_slice(&(-5_i32).to_ne_bytes());
    bytes
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(4 + value.len()).unwrap();
    let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
    bytes.extend_from_slice(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn whole(protocol: u8, bytes: &[u8]) -> String {
    messages(protocol, Part::new(bytes, bytes.len())).unwrap()
}

/// Makes an `RTM_GETLINK` with one attribute, as `ip` sends it.
fn question() -> Vec<u8> {
    let mask = attribute(29, &1_u32.to_ne_bytes());
    [header(40, 18, 0x301), vec![0; 16], mask].concat()
}

#[test]
fn a_question_is_as_strace_shows_it() {
    assert_eq!(
        whole(ROUTE, &question()),
        "[{nlmsg_len=40, nlmsg_type=RTM_GETLINK, nlmsg_flags=NLM_F_REQUEST|NLM_F_DUMP, nlmsg_seq=7, \
         nlmsg_pid=-5}, {ifi_family=AF_UNSPEC, ifi_type=ARPHRD_NETROM, ifi_index=0, ifi_flags=0, \
         ifi_change=0}, [{nla_len=8, nla_type=IFLA_EXT_MASK}, RTEXT_FILTER_VF]]"
    );
}

#[test]
fn several_messages_are_a_list_and_so_are_several_attributes() {
    let mut address = vec![2, 8, 0x80, 254];
    address.extend_from_slice(&1_u32.to_ne_bytes());
    let attributes = [attribute(1, &[127, 0, 0, 1]), attribute(3, b"lo\0")].concat();
    let length = u32::try_from(16 + address.len() + attributes.len()).unwrap();
    let all = [
        header(length, 20, 2),
        address,
        attributes,
        header(20, 3, 2),
        vec![0; 4],
    ]
    .concat();
    assert_eq!(
        whole(ROUTE, &all),
        "[[{nlmsg_len=40, nlmsg_type=RTM_NEWADDR, nlmsg_flags=NLM_F_MULTI, nlmsg_seq=7, \
         nlmsg_pid=-5}, {ifa_family=AF_INET, ifa_prefixlen=8, ifa_flags=IFA_F_PERMANENT, \
         ifa_scope=RT_SCOPE_HOST, ifa_index=1}, [[{nla_len=8, nla_type=IFA_ADDRESS}, \
         inet_addr(\"127.0.0.1\")], [{nla_len=7, nla_type=IFA_LABEL}, \"lo\"]]], \
         [{nlmsg_len=20, nlmsg_type=NLMSG_DONE, nlmsg_flags=NLM_F_MULTI, nlmsg_seq=7, \
         nlmsg_pid=-5}, 0]]"
    );
}

#[test]
fn a_refusal_has_the_message_that_was_refused() {
    let error = (-libc::EOPNOTSUPP).to_ne_bytes().to_vec();
    let all = [header(36, 2, 0x100), error, header(500, 18, 1)].concat();
    assert_eq!(
        whole(ROUTE, &all),
        "[{nlmsg_len=36, nlmsg_type=NLMSG_ERROR, nlmsg_flags=NLM_F_CAPPED, nlmsg_seq=7, \
         nlmsg_pid=-5}, {error=-EOPNOTSUPP, msg={nlmsg_len=500, nlmsg_type=RTM_GETLINK, \
         nlmsg_flags=NLM_F_REQUEST, nlmsg_seq=7, nlmsg_pid=-5}}]"
    );
}

#[test]
fn refusals_in_refusals_are_bytes() {
    let mut all = Vec::new();
    while all.len() < 60_000 {
        let rest = u32::try_from(60_000 - all.len()).unwrap();
        all.extend_from_slice(&header(rest, 2, 0));
        all.extend_from_slice(&[0; 4]);
    }
    assert_eq!(whole(ROUTE, &all).matches("NLMSG_ERROR").count(), 2);
}

#[test]
fn what_a_protocol_is_not_known_to_mean_is_bytes() {
    let all = [header(20, 18, 0x301), vec![1, 2, 3, 4]].concat();
    assert_eq!(
        whole(16, &all),
        "[{nlmsg_len=20, nlmsg_type=0x12, nlmsg_flags=NLM_F_REQUEST|0x300, nlmsg_seq=7, \
         nlmsg_pid=-5}, \"\\x01\\x02\\x03\\x04\"]"
    );
    assert!(messages(KOBJECT_UEVENT, Part::new(&all, all.len())).is_none());
    assert_eq!(whole(ROUTE, b""), "\"\"");
    assert_eq!(whole(ROUTE, b"\x01"), "\"\\x01\"");
}

#[test]
fn what_was_not_read_is_dots() {
    let question = question();
    let shown = |read: usize| {
        let part = Part::new(&question[..read], question.len());
        messages(ROUTE, part).unwrap()
    };
    assert_eq!(shown(8), "...");
    assert!(shown(16).ends_with("nlmsg_pid=-5}, ...]"), "{}", shown(16));
    let cut = shown(24);
    assert!(cut.contains("ifi_index=0, ...}, ...]"), "{cut}");
    let cut = shown(36);
    assert!(
        cut.ends_with("[{nla_len=8, nla_type=IFLA_EXT_MASK}, ...]]"),
        "{cut}"
    );
    for read in 0..question.len() {
        assert!(shown(read).contains("..."), "{read}");
    }
    assert!(!shown(question.len()).contains("..."));
}

proptest! {
    /// Checks that any bytes that are sent are shown, and that the result does not grow beyond what
    /// was read.
    #[test]
    fn no_bytes_are_too_much(
        protocol in 0_u8..25,
        kind in 0_u16..130,
        mut bytes in prop::collection::vec(any::<u8>(), 0..400),
        more in 0_usize..100,
    ) {
        if let Some(header) = bytes.get_mut(4..6) {
            header.copy_from_slice(&kind.to_ne_bytes());
        }
        let length = bytes.len() + more;
        let shown = messages(protocol, Part::new(&bytes, length)).unwrap_or_default();
        prop_assert!(shown.len() <= 1000 + 100 * bytes.len());
        prop_assert!(!shown.bytes().any(|byte| byte.is_ascii_control()));
    }
}
