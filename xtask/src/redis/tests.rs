use super::*;

#[test]
fn each_server_comes_up_syncs_as_it_should_and_leaves_nothing_behind() {
    for (sync, setting) in [(Sync::EverySecond, "everysec"), (Sync::Always, "always")] {
        let server = Server::start(sync).unwrap();
        let folder = server.folder.clone();
        let (name, url) = server.env();
        assert!(name.starts_with("WINDLASS_TEST_REDIS"), "{name}");
        let said = Command::new("redis-cli").args(["-u", &url, "config", "get", "append*"]).output().unwrap();
        let said = String::from_utf8_lossy(&said.stdout).replace('\n', " ");
        assert!(said.contains("appendonly yes") && said.contains(&format!("appendfsync {setting}")), "{said}");
        drop(server);
        assert!(!folder.exists(), "the folder goes with the server");
    }
}
