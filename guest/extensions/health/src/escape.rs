//! Texts that somebody else has made, on their way into a line: none of them
//! ends it, or turns the order in which it is read.

/// A sentence, with all escaped that does not print.
pub(crate) fn sentence(text: &str) -> String {
    escaped(text, |character| matches!(character, '"' | '\''))
}

/// A name, as one word: its spaces are escaped, too, and what escapes begin
/// with, so that no two names look the same.
pub(crate) fn word(text: &str) -> String {
    escaped(text, |character| character == '\'').replace(' ', "\\u{20}")
}

fn escaped(text: &str, stays: fn(char) -> bool) -> String {
    let mut line = String::with_capacity(text.len());
    for character in text.chars() {
        if stays(character) {
            line.push(character);
        } else {
            line.extend(character.escape_debug());
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::{sentence, word};

    #[test]
    fn a_line_stays_one() {
        let text = "é it's\r\n\0\u{1b}[1m \u{85}\u{2028}\u{202e}\"\\";
        assert_eq!(sentence(text), r#"é it's\r\n\0\u{1b}[1m \u{85}\u{2028}\u{202e}"\\"#);
        assert_eq!(word(text), r#"é\u{20}it's\r\n\0\u{1b}[1m\u{20}\u{85}\u{2028}\u{202e}\"\\"#);
    }

    #[test]
    fn names_stay_different() {
        assert_eq!(word("a b"), r"a\u{20}b");
        assert_eq!(word(r"a\u{20}b"), r"a\\u{20}b");
        assert_eq!(word("ibc-0"), "ibc-0");
    }
}
