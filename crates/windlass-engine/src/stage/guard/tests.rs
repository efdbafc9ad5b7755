use super::*;

fn on(allow: &[&str]) -> Guard {
    Guard::On { allow: allow.iter().map(|text| text.parse().unwrap()).collect() }
}

fn literal(guard: &Guard, url: &str) -> Result<(), String> {
    guard.check(&Url::parse(url).unwrap()).map_err(|refused| refused.to_string())
}

/// Answers the same to every question.
struct Always(&'static [&'static str]);

#[async_trait]
impl Lookup for Always {
    async fn addresses(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        Ok(self.0.iter().map(|text| text.parse().unwrap()).collect())
    }
}

async fn resolved(guard: Guard, answers: &'static [&'static str], host: &str) -> Result<Vec<String>, String> {
    let guarded = Guarded { guard: Arc::new(guard), lookup: Arc::new(Always(answers)) };
    let found = guarded.resolve(host.parse().unwrap()).await.map_err(|error| error.to_string())?;
    Ok(found.map(|address| address.ip().to_string()).collect())
}

const NOT_PUBLIC: &[&str] = &[
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "10.255.255.255",
    "100.64.0.1",
    "100.127.255.255",
    "100.100.100.200",
    "127.0.0.1",
    "127.255.255.254",
    "168.63.129.16",
    "169.254.0.1",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.1",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.0.1",
    "192.168.255.255",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::2",
    "::7f00:1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "::ffff:0:127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::808:808",
    "100::1",
    "2001::1",
    "2001:0:808:808::1",
    "2001:2::1",
    "2001:10::1",
    "2001:20::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "2002:808:808::1",
    "3fff::1",
    "4000::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fdff::1",
    "fe80::1",
    "febf::1",
    "fec0::1",
    "ff02::1",
];

const PUBLIC: &[&str] = &[
    "1.1.1.1",
    "8.8.8.8",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.0",
    "169.253.255.255",
    "169.255.0.0",
    "172.15.255.255",
    "172.32.0.0",
    "192.167.255.255",
    "192.169.0.0",
    "198.17.255.255",
    "198.20.0.0",
    "223.255.255.255",
    "::ffff:8.8.8.8",
    "64:ff9b::808:808",
    "2606:4700:4700::1111",
    "2001:4860:4860::8888",
    "2001:200::1",
    "2003::1",
    "2a00:1450:4001::1",
];

#[test]
fn what_is_not_public_is_refused_whatever_it_is_written_as() {
    for text in NOT_PUBLIC {
        let address: IpAddr = text.parse().unwrap();
        let url = if address.is_ipv6() { format!("http://[{text}]:8080/") } else { format!("http://{text}:8080/") };
        let refused = literal(&on(&[]), &url).expect_err(text);
        assert!(refused.contains("WL-5001"), "{refused}");
        assert_eq!(literal(&Guard::Off, &url), Ok(()), "{text}");
    }
    for url in [
        "http://2130706433/",
        "http://0x7f.1/",
        "http://0177.0.0.1/",
        "http://127.1/",
        "http://127.0.0.1./",
        "http://[::FFFF:7f00:1]/",
    ] {
        literal(&on(&[]), url).expect_err(url);
    }
}

#[test]
fn the_neighbours_of_refused_networks_are_public() {
    for text in PUBLIC {
        assert_eq!(not_public(text.parse().unwrap()), None, "{text}");
    }
}

#[test]
fn only_web_addresses_can_be_called() {
    for url in ["ftp://8.8.8.8/", "file:///etc/passwd", "gopher://8.8.8.8/", "unix:/run/x.sock"] {
        literal(&on(&[]), url).expect_err(url);
        literal(&Guard::Off, url).expect_err("not even with the guard off");
    }
}

#[test]
fn the_list_opens_networks_addresses_and_nothing_beside_them() {
    let guard = on(&["10.1.0.0/16", "127.0.0.1", "fd00::/8"]);
    for url in
        ["http://10.1.2.3/", "http://127.0.0.1/", "http://[::ffff:10.1.2.3]/", "http://[fd12::1]/", "http://8.8.8.8/"]
    {
        assert_eq!(literal(&guard, url), Ok(()), "{url}");
    }
    for url in ["http://10.2.0.1/", "http://127.0.0.2/", "http://[fe80::1]/"] {
        literal(&guard, url).expect_err(url);
    }
}

#[tokio::test]
async fn a_name_is_judged_by_what_it_resolves_to() {
    let refused = resolved(on(&[]), &["169.254.169.254"], "innocent.example").await.unwrap_err();
    assert!(refused.starts_with("innocent.example, which is 169.254.169.254, is refused"), "{refused}");
    resolved(on(&[]), &["10.0.0.1", "::1"], "innocent.example").await.unwrap_err();
    assert_eq!(resolved(on(&[]), &["8.8.8.8"], "innocent.example").await.unwrap(), ["8.8.8.8"]);
}

#[tokio::test]
async fn of_mixed_answers_only_the_public_ones_are_left() {
    let found = resolved(on(&[]), &["10.0.0.1", "8.8.8.8", "::1", "1.1.1.1"], "mixed.example").await;
    assert_eq!(found.unwrap(), ["8.8.8.8", "1.1.1.1"]);
}

#[tokio::test]
async fn a_listed_host_may_be_anywhere() {
    let guard = on(&["Intern.Example", "10.0.0.0/8"]);
    assert_eq!(resolved(guard.clone(), &["192.168.0.1"], "intern.example").await.unwrap(), ["192.168.0.1"]);
    assert_eq!(resolved(guard.clone(), &["192.168.0.1"], "INTERN.example.").await.unwrap(), ["192.168.0.1"]);
    assert_eq!(resolved(guard.clone(), &["10.0.0.1"], "other.example").await.unwrap(), ["10.0.0.1"]);
    resolved(guard.clone(), &["192.168.0.1"], "not-intern.example").await.unwrap_err();
    resolved(guard, &["192.168.0.1"], "intern.example.evil.example").await.unwrap_err();
}

#[tokio::test]
async fn the_system_knows_this_machine() {
    assert!(System.addresses("localhost").await.unwrap().iter().all(IpAddr::is_loopback));
}
