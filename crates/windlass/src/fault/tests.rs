use super::*;

#[test]
fn each_moment_can_be_said() {
    let moment = |text: &str| text.parse::<Fault>().map(|fault| (fault.write, fault.moment)).ok();
    assert_eq!(moment("before:1"), Some((1, Moment::Before)));
    assert_eq!(moment("after:17"), Some((17, Moment::After)));
    assert_eq!(moment("during:7:35"), Some((7, Moment::During { percent: 35 })));
    assert_eq!(moment("torn:7:120"), Some((7, Moment::Torn { bytes: 120 })));
    for bad in ["", "before", "before:x", "during:7", "later:7", "after:7:1"] {
        assert_eq!(moment(bad), None, "{bad}");
    }
}

#[test]
fn the_end_of_a_journal_is_behind_its_last_byte_that_is_not_zero() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(journal_end(folder.path()), None);
    std::fs::create_dir(folder.path().join("deep")).unwrap();
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
    write("deep/0.jnl", &[1; 100]);
    write("deep/1.jnl", &[1, 2, 3, 0, 4, 0, 0, 0]);
    write("deep/2.other", &[9; 100]);
    assert_eq!(journal_end(folder.path()), Some(5));
    write("deep/1.jnl", &[0; 8]);
    assert_eq!(journal_end(folder.path()), Some(0));
}
