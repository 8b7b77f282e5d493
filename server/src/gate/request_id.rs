//! Correlation ids of ours, for logs, headers and messages. Not the JSON-RPC id, which the caller picks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use rand::Rng as _;

const DIGITS: usize = 16;

/// A new id: 16 hexadecimal digits that differ between processes, and a number that differs within one.
pub(crate) fn new_request_id() -> Arc<str> {
    static PROCESS: LazyLock<u64> = LazyLock::new(|| rand::rng().next_u64());
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let mut text = [b'-'; 2 * DIGITS + 1];
    write_hex(&mut text[..DIGITS], *PROCESS);
    write_hex(&mut text[DIGITS + 1..], NEXT.fetch_add(1, Ordering::Relaxed));
    Arc::from(str::from_utf8(&text).unwrap_or_default())
}

fn write_hex(digits: &mut [u8], number: u64) {
    for (at, digit) in digits.iter_mut().rev().enumerate() {
        *digit = b"0123456789abcdef"[(number >> (4 * at) & 0xf) as usize];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_texts_of_one_length_and_differ() {
        let ids: std::collections::HashSet<_> = (0..1_000).map(|_| new_request_id()).collect();
        assert_eq!(ids.len(), 1_000);
        assert!(ids.iter().all(|id| id.len() == 33 && id.bytes().all(|b| b == b'-' || b.is_ascii_hexdigit())));
    }

    #[test]
    fn numbers_are_written_as_hexadecimal() {
        let mut digits = [0; 16];
        write_hex(&mut digits, 0x1234_abcd);
        assert_eq!(&digits, b"000000001234abcd");
    }
}
