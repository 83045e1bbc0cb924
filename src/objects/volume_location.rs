//! Where the data of a volume is, as a text that is the same for all the ways to write it.
//!
//! An administrator who rescues the data of a volume often writes a second volume, with another
//! driver or source: the CSI driver in place of the in-tree plugin, or the share of a file server
//! under another `volumeHandle`.

use serde_json::{Map, Value};

/// The CSI drivers of in-tree plugins.
///
/// Source: `plugins/*.go` of `k8s.io/csi-translation-lib`.
const EBS: &str = "ebs.csi.aws.com";
const AZURE_DISK: &str = "disk.csi.azure.com";
const AZURE_FILE: &str = "file.csi.azure.com";
const GCE_PD: &str = "pd.csi.storage.gke.io";
const CINDER: &str = "cinder.csi.openstack.org";
const VSPHERE: &str = "csi.vsphere.vmware.com";
const PORTWORX: &str = "pxd.portworx.com";
/// The CSI drivers for shares of file servers.
///
/// Source: `docs/driver-parameters.md` of `kubernetes-csi/csi-driver-nfs` and
/// `kubernetes-csi/csi-driver-smb`.
const NFS: &str = "nfs.csi.k8s.io";
const SMB: &str = "smb.csi.k8s.io";

/// Returns the location of a volume with this `spec.csi`.
pub(super) fn of_csi(csi: &Value) -> Option<String> {
    let (driver, handle) = (csi["driver"].as_str()?, csi["volumeHandle"].as_str()?);
    let attribute = |name| csi["volumeAttributes"][name].as_str();
    let below = |parent, child| path(&[attribute(parent)?, attribute(child).unwrap_or_default()]);
    let share = match driver {
        NFS => attribute("server").and_then(|server| nfs(server, &below("share", "subdir")?)),
        SMB => below("source", "subDir").map(|share| format!("{SMB} {share}")),
        AZURE_FILE => {
            let mut parts = handle.split('#').skip(1);
            let account = parts.next().or_else(|| attribute("storageAccount"));
            let share = parts.next().or_else(|| attribute("shareName"));
            account.zip(share).map(azure_file)
        }
        _ => None,
    };
    share.or_else(|| Some(of_handle(driver, handle)))
}

/// Returns the location of a volume with this in-tree source; none if no CSI driver is known to
/// serve the same storage.
pub(super) fn of_migrated(kind: &str, source: &Map<String, Value>) -> Option<String> {
    let field = |name| source.get(name).and_then(Value::as_str);
    let (driver, handle) = match kind {
        "awsElasticBlockStore" => (EBS, field("volumeID")?.rsplit('/').next()?),
        "azureDisk" => (AZURE_DISK, field("diskURI")?),
        "cinder" => (CINDER, field("volumeID")?),
        "gcePersistentDisk" => (GCE_PD, field("pdName")?),
        "portworxVolume" => (PORTWORX, field("volumeID")?),
        "vsphereVolume" => (VSPHERE, field("volumePath")?),
        "azureFile" => {
            let secret = field("secretName")?;
            let account = secret.strip_prefix("azure-storage-account-");
            let account = account.and_then(|rest| rest.strip_suffix("-secret"));
            return Some(azure_file((account.unwrap_or(secret), field("shareName")?)));
        }
        "nfs" => return nfs(field("server")?, &path(&[field("path")?])?),
        _ => return None,
    };
    Some(of_handle(driver, handle))
}

/// Of a disk of Google, only the name is compared: the in-tree plugin does not know its project,
/// nor always its zone. Names of disks at Azure are not case-sensitive.
fn of_handle(driver: &str, handle: &str) -> String {
    match (driver, handle.rsplit('/').next()) {
        (GCE_PD, Some(name)) => format!("{driver} {name}"),
        (AZURE_DISK, _) => format!("{driver} {}", handle.to_lowercase()),
        _ => format!("{driver} {handle}"),
    }
}

fn azure_file((account, share): (&str, &str)) -> String {
    format!("{AZURE_FILE} {account} {share}")
}

fn nfs(server: &str, path: &str) -> Option<String> {
    (!server.is_empty()).then(|| format!("nfs {server}:{path}"))
}

/// Joins paths, without empty elements; none if nothing is left.
fn path(parts: &[&str]) -> Option<String> {
    let parts = parts.iter().flat_map(|part| part.split('/'));
    let parts: Vec<_> = parts.filter(|part| !part.is_empty()).collect();
    (!parts.is_empty()).then(|| format!("/{}", parts.join("/")))
}

#[cfg(test)]
mod tests {
    use super::{of_csi, of_migrated};
    use serde_json::{Value, json};

    fn in_tree(kind: &str, fields: &Value) -> String {
        of_migrated(kind, fields.as_object().expect("fields")).expect("a location")
    }

    fn csi(driver: &str, handle: &str, attributes: &Value) -> String {
        let csi = json!({"driver": driver, "volumeHandle": handle, "volumeAttributes": attributes});
        of_csi(&csi).expect("a location")
    }

    #[test]
    fn a_migrated_volume_has_the_location_of_its_csi_volume() {
        let id = "/subscriptions/s/resourceGroups/r/providers/Microsoft.Compute/disks/d";
        for (kind, fields, driver, handle) in [
            (
                "awsElasticBlockStore",
                json!({"volumeID": "aws://eu-west-1a/vol-1"}),
                "ebs.csi.aws.com",
                "vol-1",
            ),
            (
                "awsElasticBlockStore",
                json!({"volumeID": "vol-1", "partition": 1}),
                "ebs.csi.aws.com",
                "vol-1",
            ),
            (
                "azureDisk",
                json!({"diskName": "d", "diskURI": id, "cachingMode": "None"}),
                "disk.csi.azure.com",
                &*id.to_lowercase(),
            ),
            (
                "cinder",
                json!({"volumeID": "1"}),
                "cinder.csi.openstack.org",
                "1",
            ),
            (
                "gcePersistentDisk",
                json!({"pdName": "d"}),
                "pd.csi.storage.gke.io",
                "projects/p/zones/z/disks/d",
            ),
            (
                "portworxVolume",
                json!({"volumeID": "1"}),
                "pxd.portworx.com",
                "1",
            ),
            (
                "vsphereVolume",
                json!({"volumePath": "[a] b.vmdk"}),
                "csi.vsphere.vmware.com",
                "[a] b.vmdk",
            ),
        ] {
            assert_eq!(
                in_tree(kind, &fields),
                csi(driver, handle, &json!({})),
                "{kind}"
            );
            assert_ne!(
                in_tree(kind, &fields),
                csi(driver, "other", &json!({})),
                "{kind}"
            );
        }
        let file = in_tree(
            "azureFile",
            &json!({"secretName": "azure-storage-account-a-secret", "shareName": "s"}),
        );
        assert_eq!(
            file,
            csi("file.csi.azure.com", "group#a#s#pv#default", &json!({}))
        );
        assert_eq!(
            file,
            csi(
                "file.csi.azure.com",
                "own",
                &json!({"storageAccount": "a", "shareName": "s"})
            )
        );
        assert_ne!(file, csi("file.csi.azure.com", "group#a#t", &json!({})));
        assert_eq!(of_migrated("iscsi", &serde_json::Map::new()), None);
    }

    #[test]
    fn a_share_is_found_under_another_handle() {
        let nfs = in_tree("nfs", &json!({"server": "s", "path": "/export/a/"}));
        let attributes = json!({"server": "s", "share": "/export", "subdir": "a"});
        assert_eq!(nfs, csi("nfs.csi.k8s.io", "s#export#a##", &attributes));
        let whole = json!({"server": "s", "share": "/export/a"});
        assert_eq!(nfs, csi("nfs.csi.k8s.io", "by-hand", &whole));
        let other = json!({"server": "s", "share": "/export", "subdir": "b"});
        assert_ne!(nfs, csi("nfs.csi.k8s.io", "by-hand", &other));
        let smb = json!({"source": "//s/share", "subDir": "a"});
        let by_hand = csi(
            "smb.csi.k8s.io",
            "by-hand",
            &json!({"source": "//s/share/a/"}),
        );
        assert_eq!(csi("smb.csi.k8s.io", "s/share#a##", &smb), by_hand);
        assert_eq!(
            csi("smb.csi.k8s.io", "by-hand", &json!({})),
            "smb.csi.k8s.io by-hand"
        );
    }
}
