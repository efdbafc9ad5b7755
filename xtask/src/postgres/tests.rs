use super::*;

#[test]
fn a_server_comes_up_answers_and_leaves_nothing_behind() {
    let server = Server::start().unwrap();
    let folder = server.folder.clone();
    let (name, url) = server.env();
    assert_eq!(name, VARIABLE);
    assert!(url.starts_with("postgres://postgres@%2F"), "{url}");
    let one = Command::new(format!("{}psql", programs()))
        .args(["-U", "postgres", "-Atc", "SHOW fsync", "-h"])
        .arg(&folder)
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&one.stdout).trim(), "on", "{one:?}");
    drop(server);
    assert!(!folder.exists(), "the folder goes with the server");
}
