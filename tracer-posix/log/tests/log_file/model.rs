//! Any events, any flushes, any policy: what is read is what a list would hold.

use proptest::prelude::*;
use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::SwitchOutData;
use tracer_engine::event::{EventHeader, MonotonicNs, Truncation};
use tracer_engine::{Attributes, Ledger, LogFullPolicy};
use tracer_log::{Damage, FinalStatus, LogHeader, LogOptions, LogWriter};

use crate::support::{Recorded, file, log_header, open, rest_of, types};

const MAX_DATA: usize = 300;

fn integer() -> impl Strategy<Value = u64> {
    prop_oneof![
        5 => 0_u64..4,
        2 => 100_u64..20_000,
        1 => any::<u64>(),
    ]
}

/// As much as the kernel reports of a switch from a thread, which ends in how long that ran.
fn switch_out_data() -> impl Strategy<Value = Vec<u8>> {
    (0_u8..2, integer()).prop_map(|(byte, ran_ns)| {
        let mut data = vec![byte; size_of::<SwitchOutData>()];
        *data.last_chunk_mut().unwrap() = ran_ns.to_ne_bytes();
        data
    })
}

fn any_event() -> impl Strategy<Value = (u64, Recorded)> {
    let thread = (
        prop_oneof![4 => 1_i32..4, 1 => any::<i32>()],
        prop_oneof![4 => 1_i32..4, 1 => any::<i32>()],
        integer(),
        prop::collection::vec(prop_oneof![Just(b'a'), any::<u8>()], 0..=16),
    );
    let switch = EventTypeId::SWITCH_IN.0..=EventTypeId::SWITCH_OUT.0;
    let event_type = prop_oneof![2 => 1_u32..45, 2 => 256_u32..260, 1 => switch];
    let site = (event_type, integer());
    let data = prop_oneof![
        2 => prop::collection::vec(0_u8..2, 0..=3),
        1 => prop::collection::vec(any::<u8>(), 0..=MAX_DATA),
        1 => switch_out_data(),
    ];
    let cpu = prop::option::of(prop_oneof![3 => 0_u32..3, 1 => any::<u32>()]);
    let pause = prop_oneof![0_u64..3, 0_u64..1_000_000, 0_u64..1 << 50];
    (pause, thread, site, cpu, any::<bool>(), data).prop_map(
        |(
            pause,
            (pid, tid, thread_id, comm),
            (event_type, program_address),
            cpu,
            is_truncated,
            data,
        )| {
            let header = EventHeader {
                time: MonotonicNs(0),
                event_type: EventTypeId(event_type),
                pid,
                tid,
                cpu,
                thread_id,
                program_address,
                truncation: if is_truncated {
                    Truncation::Record
                } else {
                    Truncation::None
                },
            };
            (pause, Recorded { header, data, comm })
        },
    )
}

fn log_of(
    events: &[Recorded],
    flushes: &[bool],
    policy: LogFullPolicy,
    size: u64,
) -> (std::fs::File, LogWriter) {
    let file = file();
    let header = LogHeader {
        attributes: Attributes::default().with_max_data_size(MAX_DATA),
        ..log_header()
    };
    let options = LogOptions {
        policy,
        max_size: LogOptions::least_size(&header.attributes) + size,
    };
    let mut writer = LogWriter::create(file.try_clone().unwrap(), &header, options).unwrap();
    for (event, flush) in events.iter().zip(flushes.iter().cycle()) {
        writer
            .append(&event.header, &event.data, &event.comm, &types())
            .unwrap();
        if *flush {
            writer.flush(&Ledger::default()).unwrap();
        }
    }
    (file, writer)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn what_is_read_is_what_a_list_would_hold(
        events in prop::collection::vec(any_event(), 0..150),
        flushes in prop::collection::vec(prop::bool::weighted(0.3), 1..20),
        policy in prop::sample::select(vec![
            LogFullPolicy::Append,
            LogFullPolicy::Loop,
            LogFullPolicy::UntilFull,
        ]),
        size in 0_u64..20_000,
    ) {
        let mut time = 0;
        let events: Vec<_> = events
            .into_iter()
            .map(|(pause, mut event)| {
                time += pause;
                event.header.time = MonotonicNs(time);
                event
            })
            .collect();
        let (file, mut writer) = log_of(&events, &flushes, policy, size);
        let is_full = writer.is_full();
        let lost = writer.lost_in_log();
        writer
            .complete(&types(), &Ledger::default(), FinalStatus::default())
            .unwrap();
        let mut reader = open(&file);
        let mut read = rest_of(&mut reader);

        prop_assert_eq!(reader.damage(), Damage::default());
        prop_assert_eq!(reader.final_status().unwrap().is_log_overrun, reader.lost_in_log() > 0);
        prop_assert!(reader.lost_in_log() >= lost);
        prop_assert_eq!(reader.events_at_end(), Some(read.len() as u64));
        match policy {
            LogFullPolicy::Append => prop_assert!(read == events),
            LogFullPolicy::Loop => prop_assert!(events.ends_with(&read)),
            LogFullPolicy::UntilFull => {
                if is_full {
                    let stop = read.pop().unwrap();
                    prop_assert_eq!(stop.header.event_type, EventTypeId::STOP);
                }
                prop_assert!(events.starts_with(&read));
            }
        }
        prop_assert_eq!(read.len() as u64 + reader.lost_in_log(), events.len() as u64);
        let mut last = reader.header().anchor.realtime;
        last.0 = 0;
        reader.rewind();
        while let Some(record) = reader.next_record().unwrap() {
            prop_assert!(record.realtime >= last);
            last = record.realtime;
        }
    }
}
