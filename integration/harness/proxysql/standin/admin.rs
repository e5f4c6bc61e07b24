//! One connection to the admin.

use std::{io, sync::Arc};

use tokio::net::TcpStream;

use super::{
    Shared,
    wire::{SqlError, Wire},
};

const QUIT: u8 = 0x01;
const USE: u8 = 0x02;
const QUERY: u8 = 0x03;
const PING: u8 = 0x0e;

/// Answers one client until it leaves.
pub(super) async fn serve(shared: Arc<Shared>, stream: TcpStream) -> io::Result<()> {
    let mut wire = Wire::new(stream)?;
    let (version, credentials) = {
        let state = shared.state.lock();
        let variable = |name| state.variable(name).to_owned();
        (
            variable("mysql-server_version"),
            variable("admin-admin_credentials"),
        )
    };
    let password_of = |user: &str| {
        let pairs = credentials
            .split(';')
            .filter_map(|pair| pair.split_once(':'));
        let mut found = pairs.filter(|(name, _)| *name == user);
        found.next().map(|(_, password)| password.to_owned())
    };
    if wire.let_in(&version, password_of).await?.is_none() {
        return Ok(());
    }
    while let Some(packet) = wire.read().await? {
        match packet.split_first() {
            Some((&QUERY, sql)) => {
                let answer = shared.execute(&String::from_utf8_lossy(sql));
                match answer {
                    Ok(answer) => wire.answer(&answer).await?,
                    Err(error) => wire.error(&error).await?,
                }
            }
            Some((&(USE | PING), _)) => wire.ok(0).await?,
            Some((&QUIT, _)) | None => return Ok(()),
            _ => {
                let error = SqlError::new(1047, "08S01", "ProxySQL Admin Error: unknown command");
                wire.error(&error).await?;
            }
        }
    }
    Ok(())
}
