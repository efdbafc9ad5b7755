use super::*;

#[test]
fn a_server_comes_up_answers_and_leaves_nothing_behind() {
    let server = Server::start().unwrap();
    let folder = server.folder.clone();
    let (name, url) = server.env();
    assert_eq!(name, VARIABLE);
    assert_eq!(url, format!("mysql://root@127.0.0.1:{}", server.port));
    let one = Command::new("mariadb")
        .args(["--no-defaults", "-uroot", "-h127.0.0.1", &format!("-P{}", server.port), "-Ne"])
        .arg("SELECT @@innodb_flush_log_at_trx_commit")
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&one.stdout).trim(), "1", "{one:?}");
    drop(server);
    assert!(!folder.exists(), "the folder goes with the server");
}
