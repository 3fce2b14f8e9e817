//! Comparing and computing with quantities such as `512Mi`.

/// The value of a quantity in thousandths of its unit; `None` when it is not one.
///
/// The API server stores quantities in its own spelling (`1024Mi` becomes `1Gi`), so they are compared by value.
#[must_use]
pub fn milli(text: &str) -> Option<i128> {
    let end = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '-' || c == '+'))
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at_checked(end)?;
    let scale: i128 = match suffix {
        // Amounts below a thousandth do not occur and are not told apart.
        "n" | "u" => return None,
        "m" => 1,
        "" => 1000,
        "k" => 1_000_000,
        "M" => 1_000_000_000,
        "G" => 1_000_000_000_000,
        "T" => 1_000_000_000_000_000,
        "P" => 1_000_000_000_000_000_000,
        "E" => 1_000_000_000_000_000_000_000,
        "Ki" => 1000 << 10,
        "Mi" => 1000 << 20,
        "Gi" => 1000 << 30,
        "Ti" => 1000 << 40,
        "Pi" => 1000 << 50,
        "Ei" => 1000 << 60,
        exponent => {
            let power: u32 = exponent
                .strip_prefix(['e', 'E'])?
                .trim_start_matches('+')
                .parse()
                .ok()?;
            10_i128.checked_pow(power)?.checked_mul(1000)?
        }
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut value = whole.checked_mul(scale)?;
    let mut unit = scale;
    for digit in fraction.chars() {
        unit /= 10;
        value += i128::from(digit.to_digit(10)?) * unit;
    }
    Some(value)
}

/// The whole value of a quantity, such as bytes.
#[must_use]
pub fn whole(text: &str) -> Option<u64> {
    u64::try_from(milli(text)? / 1000).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_the_same_amount_are_equal() {
        for (a, b) in [
            ("1024Mi", "1Gi"),
            ("0.5", "500m"),
            ("1000m", "1"),
            ("1.5Gi", "1536Mi"),
            ("1000", "1k"),
            ("1e9", "1G"),
            ("2E3", "2k"),
            ("1Ei", "1024Pi"),
        ] {
            assert_eq!(milli(a), milli(b), "{a} and {b}");
            assert!(milli(a).is_some());
        }
        assert_ne!(milli("1G"), milli("1Gi"));
        assert_eq!(whole("512Mi"), Some(512 << 20));
    }

    #[test]
    fn words_are_not_quantities() {
        for text in ["", "Always", "1x", "Mi1", "é", "1e", "1e99"] {
            assert!(milli(text).is_none_or(|_| text.is_empty()), "{text}");
        }
    }
}
