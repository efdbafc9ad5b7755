//! Certificates that nobody but the tests of a store trusts.

use std::path::Path;
use std::process::Command;

/// Makes them in `folder`: `server.crt` with `server.key`, for `localhost`; `ca.crt`, who signed it; `other.crt`, who did not.
pub fn make(folder: &Path) {
    for name in ["ca", "other"] {
        let (key, cert) = (format!("{name}.key"), format!("{name}.crt"));
        let own = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test"];
        openssl(folder, &[&own[..], &["-keyout", &key, "-out", &cert]].concat());
    }
    let asks = ["req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-keyout", "server.key"];
    openssl(folder, &[&asks[..], &["-addext", "subjectAltName=DNS:localhost", "-out", "server.csr"]].concat());
    let signs = ["x509", "-req", "-days", "2", "-copy_extensions", "copy", "-in", "server.csr", "-out", "server.crt"];
    openssl(folder, &[&signs[..], &["-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial"]].concat());
}

fn openssl(folder: &Path, args: &[&str]) {
    let output = Command::new("openssl").current_dir(folder).args(args).output().expect("openssl starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
