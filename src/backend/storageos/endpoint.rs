//! The address of the StorageOS API: `host`, `host:port`, an IP address, or a URL, which may have a
//! path.

use reqwest::Url;
use std::{fmt, net::Ipv6Addr, str::FromStr};

/// The default port of the StorageOS API.
const PORT: u16 = 5705;
/// The first path segment of every API request, below the path of the endpoint.
const BASE: &str = "v2";

/// The base URL of the StorageOS API, without credentials.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint(Url);

/// Why an address of the StorageOS API is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// The endpoint is neither a host nor a URL.
    #[error("the endpoint is not a host, host:port or URL: {0}")]
    NotAUrl(String),
    /// The endpoint is a URL with a scheme other than `https` and `http`.
    #[error("the endpoint must begin with https:// or http://, not {0}://")]
    Scheme(String),
    /// The endpoint has a user, a password, a query or a fragment.
    #[error(
        "the endpoint may have a host, a port and a path and nothing more; credentials belong in files"
    )]
    Excess,
    /// The endpoint would send the password over plain HTTP.
    #[error(
        "without TLS, everyone on the network path can read the password; use https://, or allow http:// with --insecure-http"
    )]
    PlainHttp,
}

impl Endpoint {
    /// Parses an endpoint. Without a scheme it is `http` if `insecure_http` is true, as in
    /// StorageOS' api-manager, and `https` otherwise. Without a port it is 5705 for either scheme.
    ///
    /// # Errors
    /// When the endpoint is invalid, or uses plain HTTP although `insecure_http` is false.
    pub fn parse(text: &str, insecure_http: bool) -> Result<Self, EndpointError> {
        let text = text.trim();
        let (scheme, rest) = match text.split_once("://") {
            Some((scheme, rest)) => (scheme.to_ascii_lowercase(), rest),
            None if insecure_http => ("http".to_owned(), text),
            None => ("https".to_owned(), text),
        };
        match &*scheme {
            "https" => {}
            "http" if insecure_http => {}
            "http" => return Err(EndpointError::PlainHttp),
            _ => return Err(EndpointError::Scheme(scheme)),
        }
        let rest = bracketed(rest);
        let mut url = Url::parse(&format!("{scheme}://{rest}"))
            .map_err(|error| EndpointError::NotAUrl(error.to_string()))?;
        let bare = url.username().is_empty() && url.password().is_none();
        if !bare || url.query().is_some() || url.fragment().is_some() {
            return Err(EndpointError::Excess);
        }
        let no = |()| EndpointError::NotAUrl("it has no host".to_owned());
        // `Url` drops a port that is the default of its scheme, so the text is checked instead.
        if !has_port(&rest) {
            url.set_port(Some(PORT)).map_err(no)?;
        }
        url.path_segments_mut()
            .map_err(no)?
            .pop_if_empty()
            .push(BASE);
        Ok(Self(url))
    }

    /// Returns whether requests to the endpoint are unencrypted.
    pub fn is_plain(&self) -> bool {
        self.0.scheme() == "http"
    }

    /// Returns the URL of a path below the base. It percent-encodes `path` and `query`.
    pub(super) fn url(&self, path: &[&str], query: &[(&str, &str)]) -> Url {
        let mut url = self.0.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.extend(path);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        url
    }
}

/// Puts an IPv6 address in brackets, as a URL requires; any other text is unchanged.
fn bracketed(rest: &str) -> String {
    match Ipv6Addr::from_str(rest) {
        Ok(address) => format!("[{address}]"),
        Err(_) => rest.to_owned(),
    }
}

fn has_port(rest: &str) -> bool {
    let authority = rest.split('/').next().unwrap_or_default();
    let port = authority.rsplit_once(':').map(|(_, port)| port);
    port.is_some_and(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()))
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> String {
        let endpoint = Endpoint::parse(text, true).expect(text);
        endpoint.to_string()
    }

    #[test]
    fn ns_32_every_form_of_an_endpoint_is_understood() {
        for (text, url) in [
            ("storageos", "http://storageos:5705/v2"),
            (" storageos\n", "http://storageos:5705/v2"),
            ("storageos:80", "http://storageos/v2"),
            ("storageos:8080", "http://storageos:8080/v2"),
            ("storageos:", "http://storageos:5705/v2"),
            ("http://storageos", "http://storageos:5705/v2"),
            ("HTTPS://storageos", "https://storageos:5705/v2"),
            ("https://storageos/", "https://storageos:5705/v2"),
            ("https://storageos:443", "https://storageos/v2"),
            ("https://storageos:80", "https://storageos:80/v2"),
            ("10.0.0.1", "http://10.0.0.1:5705/v2"),
            ("10.0.0.1:1", "http://10.0.0.1:1/v2"),
            ("::1", "http://[::1]:5705/v2"),
            ("fd00::5:80", "http://[fd00::5:80]:5705/v2"),
            ("[::1]", "http://[::1]:5705/v2"),
            ("[::1]:8080", "http://[::1]:8080/v2"),
            ("https://[fd00::5]", "https://[fd00::5]:5705/v2"),
            ("https://[fd00::5]:443/", "https://[fd00::5]/v2"),
            ("https://fd00::5", "https://[fd00::5]:5705/v2"),
            (
                "https://gate/storage/one",
                "https://gate:5705/storage/one/v2",
            ),
            ("https://gate:443/storage/", "https://gate/storage/v2"),
            ("gate/a:80", "http://gate:5705/a:80/v2"),
        ] {
            assert_eq!(read(text), url, "{text}");
        }
    }

    #[test]
    fn what_is_no_endpoint_is_refused() {
        let wrong = |text| Endpoint::parse(text, true).expect_err(text);
        for text in [
            "",
            "http://",
            "a b",
            "host:port",
            "host:99999",
            "[::1",
            "1::2::3",
        ] {
            assert!(matches!(wrong(text), EndpointError::NotAUrl(_)), "{text}");
        }
        for text in ["u:p@host", "https://u@host", "https://host?x=1", "host/#a"] {
            assert_eq!(wrong(text), EndpointError::Excess, "{text}");
        }
        assert_eq!(wrong("ftp://host"), EndpointError::Scheme("ftp".into()));
    }

    #[test]
    fn plain_http_has_to_be_allowed() {
        let plain = Endpoint::parse("http://storageos", false);
        assert_eq!(plain, Err(EndpointError::PlainHttp));
        let silent = Endpoint::parse("storageos", false).expect("an endpoint");
        assert_eq!(silent.to_string(), "https://storageos:5705/v2");
        assert!(!silent.is_plain());
    }

    #[test]
    fn what_a_backend_made_up_cannot_change_the_path() {
        let endpoint = Endpoint::parse("host", true).expect("an endpoint");
        let query = [("version", "a&ignore-version=true#?")];
        let url = endpoint.url(&["namespaces", "a/../b?c#d%2f"], &query);
        assert_eq!(url.path(), "/v2/namespaces/a%2F..%2Fb%3Fc%23d%252f");
        let pairs: Vec<_> = url.query_pairs().collect();
        assert_eq!(
            pairs,
            [("version".into(), "a&ignore-version=true#?".into())]
        );
    }
}
