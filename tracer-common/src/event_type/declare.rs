//! How a family of the kernel's events is declared: the structs of its data, and its types.

/// Declares structs of data, as C lays them out. `#[shown(…)]` says of what kind a member is, and
/// under which name it is shown where that is another (`Syscall as "name"`); of several kinds it is
/// shown several times. A member without it is not shown. The documentation is that of `trace.h`
/// too.
macro_rules! event_data {
    ($(
        $(#[doc = $doc:literal])*
        pub struct $data:ident {$(
            $(#[doc = $member_doc:literal])*
            $(#[shown($($kind:ident $(as $name:literal)?),+)])?
            pub $member:ident: $type:ty,
        )*}
    )*) => {$(
        $(#[doc = $doc])*
        #[derive(
            Clone,
            Copy,
            Debug,
            ::zerocopy::FromBytes,
            ::zerocopy::IntoBytes,
            ::zerocopy::Immutable,
            ::zerocopy::KnownLayout,
        )]
        #[repr(C)]
        pub struct $data {$(
            $(#[doc = $member_doc])*
            pub $member: $type,
        )*}

        impl $crate::event_type::EventData for $data {
            const FIELDS: &'static [$crate::event_type::SystemField] = &[$($($(
                $crate::event_type::SystemField {
                    name: $crate::event_type::declare::name_shown!($member $($name)?),
                    offset: ::core::mem::offset_of!($data, $member),
                    kind: $crate::event_type::FieldKind::$kind,
                },
            )+)?)*];
            const LAYOUT: Option<&'static $crate::event_type::DataLayout> =
                Some(&$crate::event_type::DataLayout {
                    rust_name: stringify!($data),
                    doc: &[$($doc),*],
                    size: size_of::<$data>(),
                    members: &[$($crate::event_type::DataMember {
                        name: stringify!($member),
                        doc: &[$($member_doc),*],
                        offset: ::core::mem::offset_of!($data, $member),
                        c_type: <$type as $crate::event_type::MemberType>::C_TYPE,
                    }),*],
                });
        }
    )*};
}
pub(crate) use event_data;

/// The name under which a member is shown: its own, unless there is another.
macro_rules! name_shown {
    ($member:ident) => {
        stringify!($member)
    };
    ($member:ident $name:literal) => {
        $name
    };
}
pub(crate) use name_shown;

/// Declares the types of a family: `EventTypeId::NAME`, and what the tables say of it, as
/// `EVENT_TYPES`.
///
/// The constant in `trace.h` is `LINUX_TRACE_NAME`, and the name the same in lower case. What is
/// said of a type is the text of `about`, the word that chooses it, its data, and the tracepoints
/// that record it; where it applies: a record that is more than header and data, the member of the
/// data that is text and ends it, the words in which people are shown it
/// (`"cpu {from_cpu} → {to_cpu}"`), tracepoints that help, and the methods of
/// [`KernelEventType`](super::KernelEventType) that say how it `is`.
macro_rules! event_types {
    ($(
        $id:ident = $code:literal {
            about: $about:literal,
            family: $family:literal,
            data: $data:ty,
            $(record: $record:ty,)?
            $(ends_with: $text:ident,)?
            $(words: $words:literal,)?
            recorded_at: [$($tracepoint:ident),*],
            $(helped_by: [$($helper:ident),+],)?
            $(is: [$($how:ident),+],)?
        }
    )*) => {
        impl $crate::event_type::EventTypeId {$(
            #[doc = concat!("`LINUX_TRACE_", stringify!($id), "`: ", $about, ".")]
            pub const $id: Self = Self($code);
        )*}

        /// The types of this family.
        pub(super) const EVENT_TYPES: &[$crate::event_type::KernelEventType] = &[$(
            {
                const CONSTANT: &str = concat!("LINUX_TRACE_", stringify!($id));
                const NAME: &[u8] = &$crate::event_type::declare::lower_case::<{ CONSTANT.len() }>(CONSTANT);
                $crate::event_type::KernelEventType::new::<$data>(
                    $crate::event_type::EventTypeId::$id,
                    [CONSTANT, $crate::event_type::declare::text(NAME)],
                    $family,
                    $about,
                    &[$(stringify!($tracepoint)),*],
                    $crate::event_type::declare::record_bytes!($data $(, $record)?),
                )
                $(.ending_with(::core::mem::offset_of!($data, $text)))?
                $(.shown_as($words))?
                $(.helped_by(&[$(stringify!($helper)),+]))?
                $($(.$how())+)?
            }
        ),*];
    };
}
pub(crate) use event_types;

/// Bytes of a record: header and data, unless it is a struct of its own.
macro_rules! record_bytes {
    ($data:ty) => {
        $crate::kernel::Record::<$data>::BYTES
    };
    ($data:ty, $record:ty) => {
        size_of::<$record>()
    };
}
pub(crate) use record_bytes;

/// Returns the bytes of an ASCII text of this length, in lower case.
#[expect(clippy::indexing_slicing, reason = "the compiler runs it")]
pub(crate) const fn lower_case<const LENGTH: usize>(text: &str) -> [u8; LENGTH] {
    let mut bytes = [0; LENGTH];
    let mut i = 0;
    while i < LENGTH {
        bytes[i] = text.as_bytes()[i].to_ascii_lowercase();
        i += 1;
    }
    bytes
}

/// Returns bytes that are text as a string.
#[expect(clippy::panic, reason = "the compiler runs it")]
pub(crate) const fn text(bytes: &'static [u8]) -> &'static str {
    match core::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(_) => panic!("the name of a type is ASCII"),
    }
}
