//! Parses a stream of events, as the WHATWG's HTML standard defines `text/event-stream`.
//!
//! The crates for it drop the field `retry` of a block without data, with which the server
//! ends a stream.

use std::time::Duration;

/// The maximum size of an event, in bytes: responses of modules are smaller.
const MAX_SIZE: usize = 256 << 20;

/// An event.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) name: String,
    pub(super) data: String,
    /// The id of the last event that had one; `None` if it was empty.
    pub(super) id: Option<String>,
}

/// A part of a stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Block {
    Event(Event),
    /// It keeps the connection open.
    Comment,
}

/// The state of a stream between two parts.
#[derive(Debug, Default)]
pub(super) struct EventParser {
    unread: Vec<u8>,
    event: Event,
    has_data: bool,
    size: usize,
    /// The time to wait before the next connection, if the server has set it.
    pub(super) retry: Option<Duration>,
}

/// An event that is too large.
#[derive(Debug, thiserror::Error)]
#[error("an event is larger than {} MiB", MAX_SIZE >> 20)]
pub(super) struct TooLarge;

impl EventParser {
    /// Creates the parser of a stream that continues after the event with this id.
    pub(super) fn after(id: Option<String>) -> Self {
        Self { event: Event { id, ..Event::default() }, ..Self::default() }
    }

    /// Adds the next bytes, and returns the events and comments that they complete.
    pub(super) fn add(&mut self, bytes: &[u8]) -> Result<Vec<Block>, TooLarge> {
        self.size += bytes.len();
        let mut blocks = Vec::new();
        let mut rest = bytes;
        // The server ends lines with a line feed only.
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            self.unread.extend(&rest[..end]);
            rest = &rest[end + 1..];
            let line = std::mem::take(&mut self.unread);
            blocks.extend(self.line(&String::from_utf8_lossy(&line)));
        }
        self.unread.extend(rest);
        if self.size > MAX_SIZE { Err(TooLarge) } else { Ok(blocks) }
    }

    fn line(&mut self, line: &str) -> Option<Block> {
        let line = line.strip_suffix('\r').unwrap_or(line);
        if line.is_empty() {
            self.size = 0;
            let id = self.event.id.clone();
            let event = std::mem::replace(&mut self.event, Event { id, ..Event::default() });
            return std::mem::take(&mut self.has_data).then_some(Block::Event(event));
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.event.name),
            "data" => {
                if self.has_data {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
                self.has_data = true;
            }
            "id" if !value.contains('\0') => {
                // An empty one resets the last id.
                self.event.id = Some(value.to_owned()).filter(|id| !id.is_empty());
            }
            "retry" => {
                self.retry = value.parse().ok().map(Duration::from_millis).or(self.retry);
            }
            "" => return Some(Block::Comment),
            // A field of a later version.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::{Block, Event, EventParser, MAX_SIZE};
    use std::time::Duration;

    fn event(name: &str, data: &str, id: Option<&str>) -> Block {
        Block::Event(Event {
            name: name.to_owned(),
            data: data.to_owned(),
            id: id.map(str::to_owned),
        })
    }

    #[test]
    fn events_are_read_from_parts_of_any_size() {
        let text = ":\n\nid: \"a\"\nevent: change\ndata: {\ndata:}\r\n\n\
            event: stale\ndata: 1\nother: x\nother\n\nretry: 1500\nretry: x\n\nevent: no data\n\n\
            id: b\n\nevent: patch\ndata: \u{e9}\n\n\
            event: failed\nid:\ndata: 2\n\nevent: stale\ndata: 3\n\ndata: unfinished\n";
        let expected = [
            Block::Comment,
            event("change", "{\n}", Some("\"a\"")),
            event("stale", "1", Some("\"a\"")),
            event("patch", "\u{e9}", Some("b")),
            event("failed", "2", None),
            event("stale", "3", None),
        ];
        for size in [1, 2, 3, 7, text.len()] {
            let mut parser = EventParser::after(None);
            let parts = text.as_bytes().chunks(size);
            let blocks: Vec<_> = parts.flat_map(|part| parser.add(part).unwrap()).collect();
            assert_eq!(blocks, expected, "parts of {size}");
            assert_eq!(parser.retry, Some(Duration::from_millis(1500)));
        }
    }

    #[test]
    fn an_event_without_an_end_is_refused() {
        let part = vec![b'a'; MAX_SIZE / 4];
        let mut parser = EventParser::after(None);
        for _ in 0..4 {
            parser.add(&part).unwrap();
        }
        let error = parser.add(&part).unwrap_err().to_string();
        assert_eq!(error, "an event is larger than 256 MiB");
    }
}
