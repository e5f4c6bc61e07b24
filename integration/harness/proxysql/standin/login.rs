//! The login at a MySQL server, by the method that the server names.

use std::io;

use mysql_common::{
    constants::CapabilityFlags,
    crypto,
    io::ParseBuf,
    packets::{AuthPlugin, AuthSwitchRequest, ErrPacket, HandshakePacket, HandshakeResponse},
    proto::MySerialize as _,
};

use super::wire::{SqlError, Wire};

const PACKET_BYTES_MAX: u32 = 1 << 24;

/// What every backend is asked for; a client's own wishes are added.
pub(super) const ASKED: CapabilityFlags = CapabilityFlags::CLIENT_PROTOCOL_41
    .union(CapabilityFlags::CLIENT_LONG_PASSWORD)
    .union(CapabilityFlags::CLIENT_LONG_FLAG)
    .union(CapabilityFlags::CLIENT_TRANSACTIONS)
    .union(CapabilityFlags::CLIENT_SECURE_CONNECTION)
    .union(CapabilityFlags::CLIENT_MULTI_RESULTS)
    .union(CapabilityFlags::CLIENT_PS_MULTI_RESULTS)
    .union(CapabilityFlags::CLIENT_PLUGIN_AUTH)
    .union(CapabilityFlags::CLIENT_SESSION_TRACK);

/// Of a client's wishes, those that a backend must know.
const PASSED_ON: CapabilityFlags =
    CapabilityFlags::CLIENT_FOUND_ROWS.union(CapabilityFlags::CLIENT_MULTI_STATEMENTS);

/// The error that a packet carries.
pub(super) fn error_of(packet: &[u8]) -> SqlError {
    match ParseBuf(packet).parse::<ErrPacket<'_>>(ASKED) {
        Ok(ErrPacket::Error(error)) => {
            SqlError::new(error.error_code(), "28000", error.message_str())
        }
        _ => SqlError::new(2013, "HY000", "the server's error cannot be read"),
    }
}

/// Logs in with the server's own method. The answer is the error packet, if any.
pub(super) async fn log_in(
    wire: &mut Wire,
    user: &str,
    password: &str,
    wishes: CapabilityFlags,
) -> io::Result<Option<Vec<u8>>> {
    let packet = wire.expect().await?;
    if packet.first() == Some(&0xff) {
        return Ok(Some(packet));
    }
    let greeting: HandshakePacket<'_> = ParseBuf(&packet).parse(())?;
    let mut nonce = greeting.nonce();
    let plugin = greeting
        .auth_plugin()
        .unwrap_or(AuthPlugin::MysqlNativePassword);
    let response = HandshakeResponse::new(
        Some(proof(&plugin, password, &nonce)),
        (8, 0, 0),
        Some(user.as_bytes()),
        None::<&[u8]>,
        Some(plugin),
        ASKED | wishes & PASSED_ON,
        None,
        PACKET_BYTES_MAX,
    );
    let mut bytes = Vec::new();
    response.serialize(&mut bytes);
    wire.send(&bytes).await?;
    loop {
        let packet = wire.expect().await?;
        match packet[..] {
            [0x00, ..] => return Ok(None),
            [0xff, ..] => return Ok(Some(packet)),
            [0xfe, ..] => {
                let switch: AuthSwitchRequest<'_> = ParseBuf(&packet).parse(())?;
                nonce = switch.plugin_data().to_vec();
                let proof = proof(&switch.auth_plugin(), password, &nonce);
                wire.send(&proof).await?;
            }
            // It knows the password already.
            [0x01, 0x03] => {}
            // It wants the password itself, enciphered with its key.
            [0x01, 0x04] => wire.send(&[0x02]).await?,
            [0x01, ref key @ ..] => {
                let mut secret = [password.as_bytes(), &[0]].concat();
                for (byte, mask) in secret.iter_mut().zip(nonce.iter().cycle()) {
                    *byte ^= mask;
                }
                wire.send(&crypto::encrypt(&secret, key)).await?;
            }
            _ => return Err(io::Error::other("no login is like this")),
        }
    }
}

fn proof(plugin: &AuthPlugin<'_>, password: &str, nonce: &[u8]) -> Vec<u8> {
    let data = plugin.gen_data(Some(password), nonce);
    data.map(|data| data.to_vec()).unwrap_or_default()
}
