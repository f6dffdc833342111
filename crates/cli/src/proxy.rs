//! Through which proxy a server is reached, as curl and kubectl read the environment.

use std::net::IpAddr;

use anyhow::{Context, Result, bail};
use http::Uri;
use http::uri::Scheme;
use hyper_util::client::proxy::matcher::Matcher;

/// The proxy of a server, by `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`, in capitals or not. This machine needs none.
pub(crate) fn of(server: &Uri) -> Result<Option<Uri>> {
    by(server, |name| std::env::var(name).ok())
}

/// Refuses a proxy that is of no use, without a word of its password.
pub(crate) fn usable(proxy: &Uri) -> Result<()> {
    match proxy.scheme_str() {
        Some("http" | "https") => Ok(()),
        scheme => bail!(
            "the proxy at {} is of the scheme {}: write http or https",
            proxy.host().unwrap_or("?"),
            scheme.unwrap_or("(none)")
        ),
    }
}

type Variable<'a> = &'a dyn Fn(&str) -> Option<String>;

fn first(variable: Variable<'_>, names: [&'static str; 2]) -> Option<(&'static str, String)> {
    let set = names
        .into_iter()
        .filter_map(|name| Some((name, variable(name)?)));
    set.map(|(name, text)| (name, text.trim().to_owned()))
        .find(|(_, text)| !text.is_empty())
}

fn named(variable: Variable<'_>) -> Option<(&'static str, String)> {
    first(variable, ["HTTPS_PROXY", "https_proxy"])
        .or_else(|| first(variable, ["ALL_PROXY", "all_proxy"]))
}

fn by(server: &Uri, variable: impl Fn(&str) -> Option<String>) -> Result<Option<Uri>> {
    let Some((name, text)) = named(&variable) else {
        return Ok(None);
    };
    let host = server.host().unwrap_or_default();
    if server.scheme() != Some(&Scheme::HTTPS) || is_here(host) {
        return Ok(None);
    }
    let without = first(&variable, ["NO_PROXY", "no_proxy"]);
    let without = without.map_or_else(String::new, |(_, text)| text);
    // It is asked about NO_PROXY alone: a proxy that it cannot read looks like none.
    let matcher = Matcher::builder()
        .https("http://proxy")
        .no(left_out(&without, server.port_u16().unwrap_or(443)))
        .build();
    if matcher.intercept(server).is_none() {
        return Ok(None);
    }
    let url = if text.contains("://") {
        text
    } else {
        format!("http://{text}")
    };
    let proxy: Uri = url.parse().with_context(|| format!("{name} is no URL"))?;
    usable(&proxy).context(name)?;
    Ok(Some(proxy))
}

/// What NO_PROXY leaves out at this port, as the matcher reads it: it knows neither `*.example.com` nor a port.
fn left_out(without: &str, port: u16) -> String {
    let entries = without.split(',').map(str::trim).filter_map(|entry| {
        let entry = entry
            .strip_prefix('*')
            .filter(|rest| rest.starts_with('.'))
            .unwrap_or(entry);
        match entry.rsplit_once(':') {
            Some((host, at)) if !host.contains(':') => match at.parse::<u16>() {
                Ok(at) => (at == port).then_some(host),
                Err(_) => Some(entry),
            },
            _ => Some(entry),
        }
    });
    entries.collect::<Vec<_>>().join(",")
}

/// Whether a host is this machine.
pub(crate) fn is_here(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let address = host.parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_reached_through_the_proxy_of_the_environment_unless_that_leaves_it_out() {
        let proxy = "http://jane:secret@proxy:3128";
        for (server, environment, reached) in [
            ("https://a.example.com/x", &[][..], None),
            (
                "https://a.example.com/x",
                &[("HTTPS_PROXY", proxy)],
                Some("http://jane:secret@proxy:3128/"),
            ),
            (
                "https://a.example.com/x",
                &[("https_proxy", "proxy:3128")],
                Some("http://proxy:3128/"),
            ),
            (
                "https://a.example.com/x",
                &[("ALL_PROXY", "http://all:1"), ("HTTPS_PROXY", "")],
                Some("http://all:1/"),
            ),
            ("https://a.example.com/x", &[("HTTP_PROXY", proxy)], None),
            (
                "https://a.example.com/x",
                &[("HTTPS_PROXY", proxy), ("NO_PROXY", "example.com")],
                None,
            ),
            (
                "https://a.example.com/x",
                &[("HTTPS_PROXY", proxy), ("no_proxy", ".example.com")],
                None,
            ),
            (
                "https://a.example.com/x",
                &[("HTTPS_PROXY", proxy), ("NO_PROXY", "*")],
                None,
            ),
            (
                "https://10.1.2.3/x",
                &[("HTTPS_PROXY", proxy), ("NO_PROXY", "10.0.0.0/8")],
                None,
            ),
            (
                "https://a.example.com/x",
                &[
                    ("HTTPS_PROXY", proxy),
                    ("NO_PROXY", "example.org,10.0.0.0/8"),
                ],
                Some("http://jane:secret@proxy:3128/"),
            ),
            (
                "https://a.example.com/x",
                &[("HTTPS_PROXY", proxy), ("NO_PROXY", "*.example.com")],
                None,
            ),
            (
                "https://10.1.2.3:6443/x",
                &[("HTTPS_PROXY", proxy), ("NO_PROXY", "x, 10.1.2.3:6443,")],
                None,
            ),
            (
                "https://10.1.2.3:6443/x",
                &[("HTTPS_PROXY", proxy), ("NO_PROXY", "10.1.2.3:443")],
                Some("http://jane:secret@proxy:3128/"),
            ),
            ("https://127.0.0.1:6443", &[("HTTPS_PROXY", proxy)], None),
            ("https://localhost/x", &[("HTTPS_PROXY", proxy)], None),
            ("http://localhost/x", &[("HTTPS_PROXY", proxy)], None),
        ] {
            let variable = |name: &str| {
                let mut set = environment.iter();
                let (_, text) = set.find(|(known, _)| *known == name)?;
                Some((*text).to_owned())
            };
            let found = by(&server.parse().unwrap(), variable).unwrap();
            let found = found.map(|uri| uri.to_string());
            assert_eq!(found.as_deref(), reached, "{server} {environment:?}");
        }
    }

    #[test]
    fn a_proxy_that_is_of_no_use_is_refused_without_its_password() {
        for text in [
            "socks5://jane:s3cret@proxy:1",
            "http://jane:s3^cret@proxy:1",
        ] {
            let variable = |name: &str| (name == "ALL_PROXY").then(|| text.to_owned());
            let refused = by(&"https://a.example.com/x".parse().unwrap(), variable).unwrap_err();
            let said = format!("{refused:#}");
            assert!(said.starts_with("ALL_PROXY"), "{said}");
            assert!(!said.contains("s3"), "{said}");
        }
    }
}
