//! Base62 (`0-9A-Za-z`) in fixed widths, so that one value has exactly one text.

const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Writes `value` with leading zeros. A width too small for the value drops digits,
/// so callers pass the width of the type: 22 for 128 bits, 6 for 32 bits.
pub(crate) fn encode<const WIDTH: usize>(mut value: u128) -> [u8; WIDTH] {
    let mut text = [b'0'; WIDTH];
    for digit in text.iter_mut().rev() {
        *digit = ALPHABET[(value % 62) as usize];
        value /= 62;
    }
    text
}

/// Reads what [`encode`] wrote; `None` for other characters and for an overflow.
pub(crate) fn decode(text: &str) -> Option<u128> {
    text.bytes().try_fold(0_u128, |value, byte| {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'A'..=b'Z' => byte - b'A' + 10,
            b'a'..=b'z' => byte - b'a' + 36,
            _ => return None,
        };
        value.checked_mul(62)?.checked_add(u128::from(digit))
    })
}
