//! The examples of deployments: what can be known of them without an engine.

mod compose;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use causeway::config::Config;
use serde::Deserialize as _;
use serde_norway::Value;

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("integration")
        .join(name)
}

fn text(name: &str) -> anyhow::Result<String> {
    std::fs::read_to_string(path(name)).with_context(|| name.to_owned())
}

/// The documents of a YAML file, with its anchors and merges resolved.
fn documents(name: &str) -> anyhow::Result<Vec<Value>> {
    let text = text(name)?;
    let mut all = Vec::new();
    for document in serde_norway::Deserializer::from_str(&text) {
        let mut value = Value::deserialize(document)?;
        value.apply_merge()?;
        all.push(value);
    }
    Ok(all)
}

fn words(list: &Value) -> Vec<&str> {
    let list = list.as_sequence().map(Vec::as_slice).unwrap_or_default();
    list.iter().filter_map(Value::as_str).collect()
}

fn mapping(value: &Value) -> BTreeMap<&str, &Value> {
    let entries = value.as_mapping().into_iter().flatten();
    entries
        .filter_map(|(key, value)| Some((key.as_str()?, value)))
        .collect()
}

#[test]
fn kubernetes_probes_limits_and_mounts_are_complete() -> anyhow::Result<()> {
    let documents = documents("kubernetes.yaml")?;
    let [map, deployment] = &documents[..] else {
        anyhow::bail!("a ConfigMap and a Deployment");
    };
    assert_eq!(
        (&map["kind"], &deployment["kind"]),
        (&"ConfigMap".into(), &"Deployment".into())
    );
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    let list = |value: &Value| value.as_sequence().cloned().unwrap_or_default();
    let volumes: Vec<_> = list(&pod["volumes"])
        .iter()
        .map(|v| v["name"].clone())
        .collect();
    let all = list(&pod["containers"]);
    assert_eq!(all.len(), 3);
    for container in &all {
        let locked = &container["securityContext"];
        assert_eq!(locked["allowPrivilegeEscalation"], false);
        assert_eq!(locked["readOnlyRootFilesystem"], true);
        assert!(!container["resources"]["limits"]["memory"].is_null());
        for mount in list(&container["volumeMounts"]) {
            assert!(volumes.contains(&mount["name"]), "{mount:?}");
        }
    }
    let causeway = all.last().context("Causeway is the last")?;
    let probe = |name: &str| causeway[name]["httpGet"]["path"].clone();
    assert_eq!(
        (probe("livenessProbe"), probe("readinessProbe")),
        ("/healthz".into(), "/readyz".into())
    );

    let given: Vec<_> = list(&causeway["env"]);
    let env = |name: &str| {
        given
            .iter()
            .any(|entry| entry["name"] == name)
            .then(|| "secret".to_owned())
    };
    let toml = map["data"]["causeway.toml"].as_str().context("a text")?;
    let config = Config::parse(toml, &env)?;
    let lease = config.proxysql.context("a section")?.lease;
    assert_eq!(lease, "causeway.proxysql@{host}", "of its own in each pod");
    Ok(())
}

#[test]
fn the_unit_is_one_that_systemd_takes() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let unit = folder.path().join("causeway.service");
    let text = text("causeway.service")?;
    assert!(text.contains("DynamicUser=yes") && text.contains("LoadCredential=mysql-password"));
    // The program is not installed where the tests run.
    std::fs::write(
        &unit,
        text.replace("/usr/local/bin/causeway serve", "/bin/true serve"),
    )?;
    match Command::new("systemd-analyze")
        .arg("verify")
        .arg(&unit)
        .output()
    {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(
                output.status.success() && !said.contains("causeway.service"),
                "{said}"
            );
        }
        Err(_) => eprintln!("systemd-analyze: not here, the unit was not verified"),
    }
    Ok(())
}
