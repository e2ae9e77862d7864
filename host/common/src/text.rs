//! Escapes and truncates texts from outside for logs and messages.

/// The maximum length of such a text in logs and messages, in characters.
const MAX_LINE: usize = 800;

/// The maximum length of a request's method, and of its path, in each line of the log, in
/// bytes.
const MAX_QUOTED: usize = 200;

/// Escapes all characters that do not print: the result is one line, displayed in the
/// order in which it is written.
#[must_use]
pub fn escape_control(text: &str) -> String {
    escape_control_within(text, usize::MAX).0
}

/// Escapes text as [`escape_control`] does, up to `max` bytes of output. Also returns
/// whether that is the whole text.
#[must_use]
pub fn escape_control_within(text: &str, max: usize) -> (String, bool) {
    let mut line = String::with_capacity(text.len().min(max));
    for character in text.chars() {
        let before = line.len();
        match character {
            '"' | '\'' | '\\' => line.push(character),
            character => line.extend(character.escape_debug()),
        }
        if line.len() > max {
            line.truncate(before);
            return (line, false);
        }
    }
    (line, true)
}

/// Returns a text from outside as it appears in logs and messages: truncated, and with
/// all characters escaped that do not print.
#[must_use]
pub fn for_log(text: &str) -> String {
    escape_control(&truncate(text))
}

/// Returns the part of a request's method or path that is logged.
#[must_use]
pub fn quote_for_log(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_QUOTED)]
}

/// Truncates the text to the maximum length of a line in messages.
#[must_use]
pub fn truncate(text: &str) -> String {
    truncate_at(text, MAX_LINE)
}

/// Truncates the text to `max` characters, and adds its size if it is longer.
#[must_use]
pub fn truncate_at(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{
        MAX_LINE, MAX_QUOTED, escape_control, escape_control_within, for_log, quote_for_log,
        truncate, truncate_at,
    };

    #[test]
    fn control_characters_are_escaped_on_one_line() {
        assert_eq!(escape_control("a\r\n\u{1b}[1m\u{202e}\"é\""), r#"a\r\n\u{1b}[1m\u{202e}"é""#);
    }

    #[test]
    fn texts_from_outside_are_escaped_and_truncated() {
        let text = "a\n\u{202e}b\u{2028}\u{2029}\u{2066}\u{0}\u{7f}";
        let escaped = r"a\n\u{202e}b\u{2028}\u{2029}\u{2066}\0\u{7f}";
        assert_eq!(for_log(text), escaped);
        assert!(for_log(&"\u{202e}".repeat(1 << 20)).len() < 10 * MAX_LINE);
    }

    #[test]
    fn escaped_text_ends_with_a_whole_character_within_its_limit() {
        let within = |max| escape_control_within("a\u{1b}é", max);
        assert_eq!(within(9), (r"a\u{1b}é".to_owned(), true));
        assert_eq!(within(8), (r"a\u{1b}".to_owned(), false));
        assert_eq!(within(6), ("a".to_owned(), false));
        assert_eq!(within(0), (String::new(), false));
        assert_eq!(escape_control_within("", 0), (String::new(), true));
    }

    #[test]
    fn requests_are_truncated_in_messages() {
        assert_eq!(quote_for_log("/version"), "/version");
        assert_eq!(quote_for_log(&"é".repeat(500)), "é".repeat(MAX_QUOTED / 2));
    }

    #[test]
    fn long_texts_are_truncated() {
        assert_eq!(truncate_at("äöü", 3), "äöü");
        assert_eq!(truncate_at("äöü", 2), "äö… (6 bytes)");
        assert_eq!(truncate(&"a".repeat(MAX_LINE)), "a".repeat(MAX_LINE));
    }
}
