//! Base62 (`0-9A-Za-z`) in fixed widths, so that one value has exactly one text.
//!
//! Values are taken apart in chunks of ten digits, which fit into 64 bits: every call reads a key, and arithmetic with 128
//! bits is slow.

const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The digits of a chunk, and how many values it has.
const CHUNK_DIGITS: usize = 10;
const CHUNK: u64 = 62_u64.pow(CHUNK_DIGITS as u32);

/// The value of every byte that is a digit.
const VALUES: [Option<u8>; 256] = {
    let mut values = [None; 256];
    let mut value = 0_u8;
    while (value as usize) < ALPHABET.len() {
        values[ALPHABET[value as usize] as usize] = Some(value);
        value += 1;
    }
    values
};

/// Writes `value` with leading zeros. A width too small for the value drops digits,
/// so callers pass the width of the type: 22 for 128 bits, 6 for 32 bits.
pub(crate) fn encode<const WIDTH: usize>(mut value: u128) -> [u8; WIDTH] {
    let mut text = [b'0'; WIDTH];
    for digits in text.rchunks_mut(CHUNK_DIGITS) {
        let mut chunk = (value % u128::from(CHUNK)) as u64;
        value /= u128::from(CHUNK);
        for digit in digits.iter_mut().rev() {
            *digit = ALPHABET[(chunk % 62) as usize];
            chunk /= 62;
        }
    }
    text
}

/// Reads what [`encode`] wrote; `None` for other characters and for an overflow.
pub(crate) fn decode(text: &str) -> Option<u128> {
    let (first, rest) = text.as_bytes().split_at(text.len() % CHUNK_DIGITS);
    rest.chunks_exact(CHUNK_DIGITS).try_fold(u128::from(chunk(first)?), |value, digits| {
        value.checked_mul(u128::from(CHUNK))?.checked_add(u128::from(chunk(digits)?))
    })
}

/// The value of at most [`CHUNK_DIGITS`] digits.
fn chunk(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0, |value, byte| Some(value * 62 + u64::from(VALUES[usize::from(*byte)]?)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn digits_stand_for_what_they_always_stood_for() {
        assert_eq!(&encode::<22>(u128::MAX), b"7n42DGM5Tflk9n8mt7Fhc7");
        assert_eq!(&encode::<22>(62), b"0000000000000000000010");
        assert_eq!(&encode::<6>(u32::MAX.into()), b"4gfFC3");
        assert_eq!(decode("7n42DGM5Tflk9n8mt7Fhc7"), Some(u128::MAX));
        assert_eq!(decode("7n42DGM5Tflk9n8mt7Fhc8"), None, "an overflow");
        assert_eq!(decode("00000000000000000000-1"), None);
    }

    proptest! {
        #[test]
        fn what_was_written_is_read_back(value: u128) {
            let text = encode::<22>(value);
            prop_assert_eq!(decode(str::from_utf8(&text).expect("ASCII")), Some(value));
        }
    }
}
