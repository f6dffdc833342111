//! The files of the page. They are part of the program.

use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

const FILES: [(&str, &str, &str); 8] = [
    ("style.css", "text/css", include_str!("../assets/style.css")),
    ("app.js", SCRIPT, include_str!("../assets/app.js")),
    ("dom.js", SCRIPT, include_str!("../assets/dom.js")),
    ("grid.js", SCRIPT, include_str!("../assets/grid.js")),
    ("lists.js", SCRIPT, include_str!("../assets/lists.js")),
    ("objects.js", SCRIPT, include_str!("../assets/objects.js")),
    ("runs.js", SCRIPT, include_str!("../assets/runs.js")),
    (
        "icon.svg",
        "image/svg+xml",
        include_str!("../assets/icon.svg"),
    ),
];
const SCRIPT: &str = "text/javascript";

pub(super) async fn index() -> Response {
    sent("text/html", include_str!("../assets/index.html"))
}

pub(super) async fn file(Path((_, name)): Path<(String, String)>) -> Response {
    match FILES.iter().find(|(file, ..)| *file == name) {
        Some((_, kind, text)) => sent(kind, text),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

fn sent(kind: &str, text: &'static str) -> Response {
    let kind = format!("{kind}; charset=utf-8");
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}
