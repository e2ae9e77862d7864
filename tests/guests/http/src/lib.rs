//! A component of `wasi:http`, built in the same way for other hosts: each path tries one function.
//! The tests build it for `wasm32-wasip2`.
#![cfg(target_os = "wasi")]

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::mem::forget;
use std::time::{SystemTime, UNIX_EPOCH};

use wasip2::exports::http::incoming_handler::Guest;
use wasip2::http::outgoing_handler;
use wasip2::http::types::{
    ErrorCode, Fields, IncomingBody, IncomingRequest, Method, OutgoingBody, OutgoingRequest,
    OutgoingResponse, ResponseOutparam, Scheme,
};
use wasip2::io::streams::StreamError;

wasip2::http::proxy::export!(Component);

struct Component;

impl Guest for Component {
    fn handle(request: IncomingRequest, out: ResponseOutparam) {
        // The only path that reads nothing of the request but its method.
        if matches!(request.method(), Method::Put) {
            return respond(out, "put");
        }
        let target = request.path_with_query().unwrap();
        let path = target.split('?').next().unwrap_or_default();
        let (name, argument) = path[1..].split_once('/').unwrap_or((&path[1..], ""));
        match name {
            "target" => {
                let method = format!("{:?}", request.method());
                let scheme = format!("{:?}", request.scheme());
                let authority = request.authority().unwrap_or_default();
                respond(out, &format!("{method} {scheme} {authority} {target}"));
            }
            "header" => {
                let values = request.headers().get(argument);
                let values: Vec<_> = values.iter().map(|value| text(value)).collect();
                respond(out, &values.join(", "));
            }
            "headers" => {
                let entries = request.headers().entries();
                let lines =
                    entries.iter().map(|(name, value)| format!("{name}: {}\n", text(value)));
                respond(out, &lines.collect::<String>());
            }
            "fields" => respond(out, &fields(&request)),
            "echo" => echo(&request, out),
            "stream" => stream(out, argument.parse().unwrap()),
            "fetch" => respond(out, &fetch(argument)),
            "status" => {
                let response = OutgoingResponse::new(Fields::new());
                response.set_status_code(argument.parse().unwrap()).unwrap();
                assert!(response.set_status_code(1000).is_err());
                assert!(response.headers().append("a", b"b").is_err());
                ResponseOutparam::set(out, Ok(response));
            }
            "empty" => ResponseOutparam::set(out, Ok(OutgoingResponse::new(Fields::new()))),
            "unset" => drop(out),
            "error" => {
                let code = ErrorCode::InternalError(Some("as the test wants it".to_owned()));
                ResponseOutparam::set(out, Err(code));
            }
            "unfinished" => {
                let response = OutgoingResponse::new(Fields::new());
                let body = response.body().unwrap();
                ResponseOutparam::set(out, Ok(response));
                body.write().unwrap().blocking_write_and_flush(b"half").unwrap();
                if argument == "forgotten" {
                    forget(body);
                }
            }
            "length" => {
                let headers = Fields::new();
                headers.set("content-length", &[argument.as_bytes().to_vec()]).unwrap();
                let response = OutgoingResponse::new(headers);
                let body = response.body().unwrap();
                ResponseOutparam::set(out, Ok(response));
                body.write().unwrap().blocking_write_and_flush(b"12345").unwrap();
                OutgoingBody::finish(body, None).ok();
            }
            "trailers" => {
                let response = OutgoingResponse::new(Fields::new());
                let body = response.body().unwrap();
                ResponseOutparam::set(out, Ok(response));
                body.write().unwrap().blocking_write_and_flush(b"body").unwrap();
                let trailers = Fields::from_list(&[("a".to_owned(), b"b".to_vec())]).unwrap();
                OutgoingBody::finish(body, Some(trailers)).unwrap();
            }
            "spin" => loop {
                std::hint::black_box(());
            },
            "time" => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                respond(out, &now.as_nanos().to_string());
            }
            "random" => respond(out, &RandomState::new().hash_one(1).to_string()),
            "hoard" => hoard(argument),
            _ => {
                let response = OutgoingResponse::new(Fields::new());
                response.set_status_code(404).unwrap();
                ResponseOutparam::set(out, Ok(response));
            }
        }
    }
}

fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value).into_owned()
}

fn respond(out: ResponseOutparam, text: &str) {
    let headers = Fields::from_list(&[("content-type".to_owned(), b"text/plain".to_vec())]);
    let response = OutgoingResponse::new(headers.unwrap());
    let body = response.body().unwrap();
    ResponseOutparam::set(out, Ok(response));
    let stream = body.write().unwrap();
    for part in text.as_bytes().chunks(4096) {
        stream.blocking_write_and_flush(part).unwrap();
    }
    drop(stream);
    OutgoingBody::finish(body, None).unwrap();
}

/// Sends the body of the request back, piece by piece.
fn echo(request: &IncomingRequest, out: ResponseOutparam) {
    let response = OutgoingResponse::new(Fields::new());
    let body = response.body().unwrap();
    ResponseOutparam::set(out, Ok(response));
    let incoming = request.consume().unwrap();
    assert!(request.consume().is_err());
    let source = incoming.stream().unwrap();
    let sink = body.write().unwrap();
    loop {
        match sink.blocking_splice(&source, 1000) {
            Ok(_) => {}
            Err(StreamError::Closed) => break,
            Err(error) => panic!("{error:?}"),
        }
    }
    drop((source, sink));
    let trailers = IncomingBody::finish(incoming);
    trailers.subscribe().block();
    assert!(matches!(trailers.get(), Some(Ok(Ok(None)))));
    OutgoingBody::finish(body, None).unwrap();
}

/// Writes a body of so many pieces of a KiB, after the response was set.
fn stream(out: ResponseOutparam, pieces: u32) {
    let response = OutgoingResponse::new(Fields::new());
    let body = response.body().unwrap();
    ResponseOutparam::set(out, Ok(response));
    let stream = body.write().unwrap();
    for number in 0..pieces {
        stream.subscribe().block();
        assert!(stream.check_write().unwrap() >= 1024);
        stream.write(&[b'0' + (number % 10) as u8; 1024]).unwrap();
    }
    drop(stream);
    OutgoingBody::finish(body, None).unwrap();
}

/// Tries to send a request to another server.
fn fetch(authority: &str) -> String {
    let request = OutgoingRequest::new(Fields::new());
    request.set_scheme(Some(&Scheme::Http)).unwrap();
    request.set_authority(Some(authority)).unwrap();
    request.set_path_with_query(Some("/")).unwrap();
    let body = request.body().unwrap();
    body.write().unwrap().blocking_write_and_flush(b"secret").unwrap();
    OutgoingBody::finish(body, None).unwrap();
    match outgoing_handler::handle(request, None) {
        Ok(_) => "sent".to_owned(),
        Err(code) => format!("{code:?}"),
    }
}

/// Describes the rules for headers.
fn fields(request: &IncomingRequest) -> String {
    let own = Fields::new();
    let results = [
        own.append("a", b"1"),
        own.append("A", b"2"),
        own.append("transfer-encoding", b"chunked"),
        own.append("a b", b""),
        own.append("b", b"\n"),
        own.set("c", &[b"3".to_vec()]),
        own.delete("none"),
        request.headers().append("a", b"1"),
    ];
    let copy = own.clone();
    copy.delete("a").unwrap();
    let entries = [own.entries(), copy.entries()];
    let values = own.get("a").iter().map(|value| text(value)).collect::<Vec<_>>();
    format!("{results:?} {values:?} {} {:?}", own.has("C"), entries.map(|entries| entries.len()))
}

/// Takes one resource of the host without end.
fn hoard(kind: &str) -> ! {
    match kind {
        "fields" => loop {
            forget(Fields::new());
        },
        "headers" => {
            let fields = Fields::new();
            loop {
                fields.append("a", b"b").unwrap();
            }
        }
        "bytes" => loop {
            let fields = Fields::new();
            fields.append("a", &vec![b'a'; 32 << 10]).unwrap();
            forget(fields);
        },
        "texts" => loop {
            let request = OutgoingRequest::new(Fields::new());
            request.set_method(&Method::Other("A".repeat(32 << 10))).unwrap();
            forget(request);
        },
        "bodies" => loop {
            let response = OutgoingResponse::new(Fields::new());
            let body = response.body().unwrap();
            let stream = body.write().unwrap();
            for _ in 0..64 {
                stream.blocking_write_and_flush(&[0; 4096]).unwrap();
            }
            forget((response, body, stream));
        },
        _ => panic!("no such kind"),
    }
}
