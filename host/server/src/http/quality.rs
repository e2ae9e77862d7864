//! The quality of a member of a list, by which a client orders its preferences (RFC 9110, 12.4.2).

/// Returns the quality of a member with these parameters in thousandths: 1000 without one, and 0
/// for an invalid one, so that the member is not used.
pub(super) fn quality(parameters: &str) -> u16 {
    let mut parameters = self::parameters(parameters);
    let quality = parameters.find(|(name, _)| is_quality(name));
    quality.map_or(1000, |(_, value)| thousandths(value))
}

/// Returns whether a member with these parameters has others than a quality.
pub(super) fn has_others(parameters: &str) -> bool {
    self::parameters(parameters).any(|(name, _)| !is_quality(name))
}

fn parameters(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let parameters = text.split(';').filter(|parameter| !parameter.trim().is_empty());
    parameters.map(|parameter| {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        (name.trim(), value.trim())
    })
}

fn is_quality(name: &str) -> bool {
    name.eq_ignore_ascii_case("q")
}

fn thousandths(value: &str) -> u16 {
    match value.split_once('.').unwrap_or((value, "")) {
        ("1", zeros) if zeros.bytes().all(|digit| digit == b'0') => 1000,
        ("0", digits)
            if digits.len() <= 3 && digits.bytes().all(|digit| digit.is_ascii_digit()) =>
        {
            format!("{digits:0<3}").parse().unwrap_or(0)
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::quality;

    #[test]
    fn a_quality_has_at_most_three_digits_and_an_invalid_one_is_zero() {
        for (parameters, expected) in [
            ("", 1000),
            (" ", 1000),
            ("charset=utf-8", 1000),
            ("q=1", 1000),
            ("q=1.000", 1000),
            (" Q = 0.5 ", 500),
            ("charset=utf-8; q=0.25", 250),
            ("q=0.001", 1),
            ("q=0.", 0),
            ("q=0", 0),
            ("q=0.0001", 0),
            ("q=1.1", 0),
            ("q=2", 0),
            ("q=-1", 0),
            ("q=x", 0),
            ("q=", 0),
            ("q", 0),
            ("q=0.5; q=1", 500),
        ] {
            assert_eq!(quality(parameters), expected, "{parameters:?}");
        }
    }
}
