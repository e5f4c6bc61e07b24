//! The section `[feed]`.

use std::net::SocketAddr;

use super::{ConfigError, raw, value};
use crate::fleet::{ServerIx, ServerSpec};

/// The GTID feeds for ProxySQL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Feed {
    /// One a server at most; servers without one have no feed.
    pub listen: Vec<Listen>,
}

/// Where one server's feed listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen {
    /// Whose feed.
    pub server: ServerIx,
    /// TCP address.
    pub address: SocketAddr,
}

pub(super) fn resolve(
    raw: raw::Feed,
    servers: &[ServerSpec],
    api: SocketAddr,
) -> Result<Feed, ConfigError> {
    let mut listen: Vec<Listen> = Vec::new();
    for (name, address) in raw.listen {
        let key = format!("feed.listen.{name}");
        let place = servers.iter().position(|server| server.name == name);
        let place = place.ok_or_else(|| value(&key, "is no name in mysql.servers"))?;
        // Port 0 is another one each time.
        let taken = address.port() != 0
            && (address == api || listen.iter().any(|other| other.address == address));
        if taken {
            return Err(value(&key, &format!("{address} is used twice")));
        }
        let place = u16::try_from(place).expect("there are at most 4,096 servers");
        listen.push(Listen {
            server: ServerIx(place),
            address,
        });
    }
    Ok(Feed { listen })
}
