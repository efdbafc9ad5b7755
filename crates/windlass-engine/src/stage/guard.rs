//! Keeps `http` and `poll` stages on the public internet unless the operator says otherwise: a URL often comes
//! from a tenant's configuration, and the instance stands where the tenant does not. What is judged is the
//! address that is connected to, so that no name and no redirect leads around it.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;

use async_trait::async_trait;
use ipnet::IpNet;
use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// Which addresses stages may call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Guard {
    /// Every one.
    Off,
    /// Public ones, and those on the list.
    On {
        /// What is allowed although it is not public.
        allow: Vec<Allow>,
    },
}

impl Default for Guard {
    fn default() -> Guard {
        Guard::On { allow: Vec::new() }
    }
}

/// One entry of the guard's list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Allow {
    /// Every address in it.
    Net(IpNet),
    /// Whatever this name resolves to, in lower case.
    Host(String),
}

impl FromStr for Allow {
    type Err = Infallible;

    /// `10.1.0.0/16`, `10.1.2.3`, `::1`, or else a host's name.
    fn from_str(text: &str) -> Result<Allow, Infallible> {
        let net = text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
        Ok(net.map_or_else(|_| Allow::Host(plain(text)), Allow::Net))
    }
}

/// The guard said no.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} is refused: {why} (WL-5001)")]
pub struct Refused {
    what: String,
    why: String,
}

impl Guard {
    /// Judges what the URL itself says: its scheme, and its host if that is an address. Nobody resolves those.
    pub fn check(&self, url: &Url) -> Result<(), Refused> {
        if !matches!(url.scheme(), "http" | "https") {
            let why = "only http and https can be called".to_owned();
            return Err(Refused { what: format!("the scheme {}", url.scheme()), why });
        }
        let host = url.host_str().unwrap_or_default();
        match host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
            Ok(address) => self.judge(host, address),
            Err(_) => Ok(()),
        }
    }

    /// Judges an address that `host` stands for.
    pub fn judge(&self, host: &str, address: IpAddr) -> Result<(), Refused> {
        let Guard::On { allow } = self else { return Ok(()) };
        let plain_address = address.to_canonical();
        let listed = allow.iter().any(|entry| match entry {
            Allow::Net(net) => net.contains(&plain_address) || net.contains(&address),
            Allow::Host(name) => *name == plain(host),
        });
        match not_public(address) {
            Some(why) if !listed => {
                let is_literal = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok();
                let what = if is_literal { address.to_string() } else { format!("{host}, which is {address},") };
                Err(Refused { what, why: format!("it is {why}, and not on the guard's list") })
            }
            _ => Ok(()),
        }
    }
}

/// Names are compared without capitals and without the dot at the end.
fn plain(host: &str) -> String {
    host.trim_end_matches('.').to_ascii_lowercase()
}

/// Networks that are not the public internet, and what they are. The most telling comes first.
const V4: &[(Ipv4Addr, u32, &str)] = &[
    (Ipv4Addr::new(127, 0, 0, 0), 8, "a loopback address"),
    (Ipv4Addr::new(169, 254, 169, 254), 32, "a metadata service"),
    (Ipv4Addr::new(169, 254, 0, 0), 16, "a link-local address"),
    (Ipv4Addr::new(168, 63, 129, 16), 32, "a metadata service"),
    (Ipv4Addr::new(100, 100, 100, 200), 32, "a metadata service"),
    (Ipv4Addr::new(192, 0, 0, 192), 32, "a metadata service"),
    (Ipv4Addr::new(10, 0, 0, 0), 8, "a private address"),
    (Ipv4Addr::new(172, 16, 0, 0), 12, "a private address"),
    (Ipv4Addr::new(192, 168, 0, 0), 16, "a private address"),
    (Ipv4Addr::new(100, 64, 0, 0), 10, "an address behind a carrier's NAT"),
    (Ipv4Addr::new(0, 0, 0, 0), 8, "an unspecified address"),
    (Ipv4Addr::new(192, 0, 0, 0), 24, "a reserved address"),
    (Ipv4Addr::new(192, 0, 2, 0), 24, "a documentation address"),
    (Ipv4Addr::new(198, 51, 100, 0), 24, "a documentation address"),
    (Ipv4Addr::new(203, 0, 113, 0), 24, "a documentation address"),
    (Ipv4Addr::new(192, 88, 99, 0), 24, "a 6to4 relay"),
    (Ipv4Addr::new(198, 18, 0, 0), 15, "a benchmarking address"),
    (Ipv4Addr::new(224, 0, 0, 0), 4, "a multicast address"),
    (Ipv4Addr::new(240, 0, 0, 0), 4, "a reserved address"),
];

const V6: &[(Ipv6Addr, u32, &str)] = &[
    (Ipv6Addr::LOCALHOST, 128, "a loopback address"),
    (Ipv6Addr::UNSPECIFIED, 128, "an unspecified address"),
    (Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0), 32, "a metadata service"),
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7, "a private address"),
    (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10, "a link-local address"),
    (Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8, "a multicast address"),
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 32, "a Teredo address"),
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23, "a reserved address"),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32, "a documentation address"),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20, "a documentation address"),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16, "a 6to4 address"),
];

/// Why an address is not on the public internet; none if it is.
fn not_public(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(v4) => not_public_v4(v4),
        IpAddr::V6(v6) => not_public_v6(v6),
    }
}

fn not_public_v4(address: Ipv4Addr) -> Option<&'static str> {
    let within = |net: Ipv4Addr, bits: u32| (address.to_bits() ^ net.to_bits()).leading_zeros() >= bits;
    V4.iter().find(|(net, bits, _)| within(*net, *bits)).map(|(_, _, why)| *why)
}

fn not_public_v6(address: Ipv6Addr) -> Option<&'static str> {
    let within = |net: Ipv6Addr, bits: u32| (address.to_bits() ^ net.to_bits()).leading_zeros() >= bits;
    if let Some((_, _, why)) = V6.iter().find(|(net, bits, _)| within(*net, *bits)) {
        return Some(why);
    }
    let [.., a, b, c, d] = address.octets();
    let embedded = Ipv4Addr::new(a, b, c, d);
    let translated = within(Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96);
    if address.to_ipv4_mapped().is_some() || translated {
        return not_public_v4(embedded);
    }
    // Of IPv6, only this part is given out for the public internet.
    (!within(Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3)).then_some("a reserved address")
}

/// Finds the addresses of a host.
#[async_trait]
pub trait Lookup: Send + Sync {
    /// All of them.
    async fn addresses(&self, host: &str) -> io::Result<Vec<IpAddr>>;
}

/// As the system does it.
#[derive(Debug, Default)]
pub struct System;

#[async_trait]
impl Lookup for System {
    async fn addresses(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        Ok(tokio::net::lookup_host((host, 0)).await?.map(|address| address.ip()).collect())
    }
}

/// Looks names up and keeps the addresses that the guard lets through: the client connects to no other.
pub(super) struct Guarded {
    pub(super) guard: Arc<Guard>,
    pub(super) lookup: Arc<dyn Lookup>,
}

impl Resolve for Guarded {
    fn resolve(&self, name: Name) -> Resolving {
        let (guard, lookup) = (self.guard.clone(), self.lookup.clone());
        Box::pin(async move {
            let found = lookup.addresses(name.as_str()).await?;
            let (mut open, mut refused) = (Vec::new(), None);
            for address in found {
                match guard.judge(name.as_str(), address) {
                    Ok(()) => open.push(SocketAddr::new(address, 0)),
                    Err(why) => refused = refused.or(Some(why)),
                }
            }
            match refused {
                Some(why) if open.is_empty() => Err(why.into()),
                _ => Ok(Box::new(open.into_iter()) as Addrs),
            }
        })
    }
}

#[cfg(test)]
mod tests;
