//! Paths, made of strange names (`cargo xtask fuzz`).

use carillon_fuzz::check;

use crate::path::Resource;

const PODS: Resource = Resource {
    group: "",
    version: "v1",
    plural: "pods",
};

#[test]
fn path() {
    let samples: &[&[u8]] = &[
        b"sum",
        b"?watch=true",
        b"../../nodes",
        b"..",
        b"a%2fb",
        b"a#b\r\n",
    ];
    check("path", samples, |bytes| {
        let name = String::from_utf8_lossy(bytes);
        let Ok(path) = PODS.within("ops").and_then(|pods| pods.object(&name)) else {
            return;
        };
        let path = path.with("continue", &name);
        let (path, query) = path.as_str().split_once('?').unwrap();
        let segments: Vec<&str> = path.split('/').collect();
        let below = ["", "api", "v1", "namespaces", "ops", "pods"];
        assert!(segments.len() == 7 && segments[..6] == below, "{path}");
        assert!(![".", ".."].contains(&segments[6]), "{path}");
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~%=/".contains(&byte);
        assert!(
            path.bytes().chain(query.bytes()).all(plain),
            "{path} {query}"
        );
    });
}
