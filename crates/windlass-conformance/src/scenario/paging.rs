//! Lists: filters, order, pages, and pages while others write.

use windlass_core::event::Fact;
use windlass_core::lock::LOCK_MS;
use windlass_core::plan::PlanStatus;
use windlass_core::port::lock::Force;
use windlass_core::port::state::{Filter, Row};
use windlass_core::port::{Cursor, PAGE_MAX, PortError};
use windlass_core::task::Cause;
use windlass_core::task::status::{Statuses, TaskStatus};

use crate::Harness;
use crate::world::read::{all_tasks, list, list_locks};
use crate::world::step::{self, Draft};
use crate::world::{BORN, LATER_MS, LEASE_MS, Rival, id};

fn name(row: &Row) -> String {
    match row {
        Row::Plan(row) => row.plan.id.to_string(),
        Row::Task(row) => row.task.id.to_string(),
        Row::Instance(row) => row.id.to_string(),
        other => panic!("{other:?} is in no list"),
    }
}

async fn names(rival: &Rival, filter: &Filter, limit: u32) -> Vec<String> {
    list(&rival.ports, filter, limit).await.iter().map(name).collect()
}

/// Plans: the newest first, then by id. Tasks in the order of their plans. Instances by id.
pub async fn lists_have_an_order_that_pages_do_not_change(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    // The second and the third were created in the same millisecond; ids that are prefixes of ids
    // and positions of two digits would show a sort by text.
    for (plan, age, tasks) in [("b", 5, 12), ("a-1", 7, 1), ("a", 7, 2), ("c", 6, 0), ("B", 7, 1)] {
        one.create(&Draft::wide(plan, tasks).born(BORN.plus(age))).await;
    }
    for instance in ["i-2", "i-10", "I", "i"] {
        Rival::up(h, instance, 0).await;
    }
    let mut tasks = vec!["B-0", "a-0", "a-1", "a-1-0"].into_iter().map(str::to_owned).collect::<Vec<_>>();
    tasks.extend((0..12).map(|i| format!("b-{i}")));
    for limit in [1, 2, 3, 4, PAGE_MAX] {
        let plans = names(&one, &Filter::Plans { statuses: Vec::new() }, limit).await;
        assert_eq!(plans, ["B", "a", "a-1", "c", "b"], "pages of {limit}");
        assert_eq!(names(&one, &all_tasks(), limit).await, tasks, "pages of {limit}");
        let instances = names(&one, &Filter::Instances, limit).await;
        assert_eq!(instances, ["I", "i", "i-10", "i-2", "one"], "pages of {limit}");
    }
}

/// Every filter alone and all of them together, against the whole list.
pub async fn every_filter_lets_through_what_it_says(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    let tenants = ["acme", "bolt", "corp", "dent"];
    let drafts = ["p", "q", "r"].map(|plan| Draft::new(plan, &tenants));
    for draft in &drafts {
        one.create(draft).await;
    }
    one.start(&drafts[0].id()).await;
    one.start(&drafts[1].id()).await;
    one.end(&drafts[1].id(), BORN).await;
    let attempt = one.begin(&drafts[0].task(0)).await;
    one.stage(&attempt).await;
    let failed = one.begin(&drafts[0].task(1)).await;
    one.fail(&failed).await;
    let row = one.task(&drafts[1].task(2)).await;
    one.done(&step::person("cancel", &row, vec![Fact::TaskCancelled { cause: Cause::Person }])).await;
    let everything = list(&one.ports, &all_tasks(), PAGE_MAX).await;
    assert_eq!(everything.len(), 12);
    let sets: Vec<Statuses> = [Statuses::NONE, Statuses::ALL]
        .into_iter()
        .chain(TaskStatus::ALL.map(|status| Statuses::of(&[status])))
        .chain([Statuses::of(&[TaskStatus::Running, TaskStatus::Cancelled, TaskStatus::Pending])])
        .collect();
    for plan in [None, Some(id("p")), Some(id("q")), Some(id("nowhere"))] {
        for tenant in [None, Some(id("acme")), Some(id("corp")), Some(id("nobody"))] {
            for statuses in &sets {
                let wanted: Vec<Row> = everything
                    .iter()
                    .filter(|row| {
                        let Row::Task(row) = row else { panic!("a list of tasks") };
                        let task = &row.task;
                        plan.as_ref().is_none_or(|plan| *plan == task.plan)
                            && tenant.as_ref().is_none_or(|tenant| *tenant == task.tenant)
                            && (statuses.is_empty() || statuses.has(task.status))
                    })
                    .cloned()
                    .collect();
                let (plan, tenant) = (plan.clone(), tenant.clone());
                let filter = Filter::Tasks { plan, tenant, statuses: *statuses, interrupted: false };
                for limit in [2, PAGE_MAX] {
                    assert_eq!(list(&one.ports, &filter, limit).await, wanted, "{filter:?} in pages of {limit}");
                }
            }
        }
    }
    for (statuses, wanted) in [
        (vec![PlanStatus::Running], vec!["p"]),
        (vec![PlanStatus::Completed, PlanStatus::Ready], vec!["q", "r"]),
        (vec![PlanStatus::Paused], vec![]),
        (PlanStatus::ALL.to_vec(), vec!["p", "q", "r"]),
    ] {
        assert_eq!(names(&one, &Filter::Plans { statuses }, 1).await, wanted);
    }
}

/// Interrupted is a reading: the same record, another clock.
pub async fn interrupted_tasks_are_those_whose_owners_lease_expired(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    let two = Rival::up(h, "two", 0).await;
    two.beat(10 * LATER_MS).await;
    let draft = Draft::wide("p", 5);
    one.run(&draft).await;
    one.begin(&draft.task(0)).await;
    two.begin(&draft.task(1)).await;
    let failed = one.begin(&draft.task(2)).await;
    one.fail(&failed).await;
    one.take(&draft.task(3)).await.expect("free");
    let filter = |statuses, plan| Filter::Tasks { plan, tenant: None, statuses, interrupted: true };
    assert_eq!(names(&one, &filter(Statuses::NONE, None), 10).await, [""; 0], "everybody lives");
    let later = Rival::open(h, "later", LATER_MS).await;
    assert_eq!(names(&later, &filter(Statuses::NONE, None), 10).await, ["p-0"], "running, and its owner is gone");
    assert_eq!(names(&later, &filter(Statuses::of(&[TaskStatus::RollingBack]), None), 10).await, [""; 0]);
    assert_eq!(names(&later, &filter(Statuses::ALL, Some(draft.id())), 1).await, ["p-0"]);
    one.beat(0).await;
    assert_eq!(names(&two, &filter(Statuses::NONE, None), 10).await, ["p-0"], "a lease that was ended has expired");
}

/// Others create, move and end records between two pages: what is there all along comes exactly once.
pub async fn a_record_that_is_there_all_along_is_listed_once(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    let two = Rival::up(h, "two", 0).await;
    let draft = Draft::wide("p", 20).at_once(20).born(BORN.plus(500));
    one.run(&draft).await;
    for i in 0..10 {
        one.create(&Draft::wide(&format!("old-{i}"), 1).born(BORN.plus(i * 100))).await;
    }
    let filters = [all_tasks(), Filter::Plans { statuses: Vec::new() }];
    let mut before = Vec::new();
    for filter in &filters {
        before.push(names(&one, filter, PAGE_MAX).await);
    }
    for (i, filter) in filters.iter().enumerate() {
        let (mut seen, mut after, mut round) = (Vec::new(), None, 0u64);
        loop {
            let page = one.ports.state.list(filter, after.as_ref(), 3).await.expect("list");
            seen.extend(page.items.iter().map(name));
            after = page.next;
            if after.is_none() {
                break;
            }
            // Before, among and behind what was listed; and one that was listed changes.
            for age in [0, 550, 10_000] {
                let plan = format!("new-{i}-{round}-{age}");
                two.create(&Draft::wide(&plan, 2).born(BORN.plus(age + round))).await;
            }
            if i == 0 && round < 20 {
                let attempt = two.begin(&draft.task(19 - round as usize)).await;
                if round % 2 == 0 {
                    two.fail(&attempt).await;
                }
            }
            round += 1;
            assert!(round < 200, "a list that is written to must come to its end");
        }
        for there in &before[i] {
            let times = seen.iter().filter(|seen| *seen == there).count();
            assert_eq!(times, 1, "{there} was there all along");
        }
        let mut unique = seen.clone();
        unique.sort();
        unique.dedup();
        assert_eq!(unique.len(), seen.len(), "nothing comes twice");
    }
}

/// A cursor holds its place for a filtered list too, while what it stands on leaves the filter.
pub async fn a_cursor_outlives_what_it_stands_on(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    let draft = Draft::wide("p", 9);
    one.create(&draft).await;
    let statuses = Statuses::of(&[TaskStatus::Pending]);
    let filter = Filter::Tasks { plan: Some(draft.id()), tenant: None, statuses, interrupted: false };
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = one.ports.state.list(&filter, after.as_ref(), 2).await.expect("list");
        for row in page.items {
            let Row::Task(row) = row else { panic!("a list of tasks") };
            let cancel = vec![Fact::TaskCancelled { cause: Cause::Person }];
            one.done(&step::person(&format!("cancel-{}", row.task.id), &row, cancel)).await;
            seen.push(row.task.id);
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(seen, (0..9).map(|i| draft.task(i)).collect::<Vec<_>>());
}

/// The last page says so, also when it is full.
pub async fn the_last_page_has_no_next(h: &dyn Harness) {
    let one = Rival::open(h, "one", 0).await;
    for filter in [all_tasks(), Filter::Plans { statuses: Vec::new() }, Filter::Instances] {
        let page = one.ports.state.list(&filter, None, 1).await.expect("list");
        assert_eq!((page.items, page.next), (vec![], None), "nothing is one empty page");
    }
    let page = one.ports.locks.list(None, 1).await.expect("list");
    assert_eq!((page.items, page.next), (vec![], None));
    one.create(&Draft::wide("p", 4)).await;
    for (limit, more) in [(1, true), (3, true), (4, false), (5, false)] {
        let page = one.ports.state.list(&all_tasks(), None, limit).await.expect("list");
        assert_eq!(page.next.is_some(), more, "4 tasks in pages of {limit}");
    }
}

/// A page has between one item and a thousand, and a cursor comes from the store.
pub async fn bad_limits_and_cursors_are_refused(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    one.create(&Draft::wide("p", 3)).await;
    one.acquire("acme", "t", LEASE_MS).await.expect("free");
    for filter in [all_tasks(), Filter::Plans { statuses: Vec::new() }, Filter::Instances] {
        for limit in [0, PAGE_MAX + 1, u32::MAX] {
            let answer = one.ports.state.list(&filter, None, limit).await;
            assert!(matches!(answer, Err(PortError::Invalid(_))), "a page of {limit}: {answer:?}");
        }
        for cursor in ["", "x", "not a cursor", "p-0", "🪝", "%00"] {
            let answer = one.ports.state.list(&filter, Some(&Cursor(cursor.to_owned())), 1).await;
            assert!(matches!(answer, Err(PortError::Invalid(_))), "cursor {cursor:?}: {answer:?}");
        }
        one.ports.state.list(&filter, None, PAGE_MAX).await.expect("a full page");
    }
    for limit in [0, PAGE_MAX + 1] {
        assert!(matches!(one.ports.locks.list(None, limit).await, Err(PortError::Invalid(_))));
    }
    for cursor in ["", "acme", "🪝"] {
        let answer = one.ports.locks.list(Some(&Cursor(cursor.to_owned())), 1).await;
        assert!(matches!(answer, Err(PortError::Invalid(_))), "cursor {cursor:?}: {answer:?}");
    }
}

/// Tenants that are held or frozen now, by id; others come and go meanwhile.
pub async fn locked_tenants_are_listed_by_id(h: &dyn Harness) {
    let one = Rival::open(h, "one", 0).await;
    for tenant in ["b", "B", "a-1", "a", "c"] {
        one.acquire(tenant, "t", LOCK_MS).await.expect("free");
    }
    one.acquire("short", "t", LEASE_MS).await.expect("free");
    let by = id("Zoë");
    for tenant in ["d", "c"] {
        one.ports.locks.force(&id(tenant), Force::Freeze, &by, None, None).await.expect("force").expect("done");
    }
    let names = |tenants: Vec<windlass_core::port::lock::Tenant>| -> Vec<String> {
        tenants.iter().map(|tenant| tenant.tenant.to_string()).collect()
    };
    let later = Rival::open(h, "later", LATER_MS).await;
    for limit in [1, 2, 3, PAGE_MAX] {
        assert_eq!(names(list_locks(&one.ports, limit).await), ["B", "a", "a-1", "b", "c", "d", "short"]);
        assert_eq!(names(list_locks(&later.ports, limit).await), ["B", "a", "a-1", "b", "c", "d"], "one expired");
    }
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = later.ports.locks.list(after.as_ref(), 2).await.expect("list");
        for tenant in page.items {
            // What was listed is released, and its neighbours are locked.
            let name = tenant.tenant.to_string();
            later
                .ports
                .locks
                .force(&tenant.tenant, Force::Release, &by, None, None)
                .await
                .expect("force")
                .expect("done");
            if name.len() < 8 {
                later.acquire(&format!("{name}-0"), "t", LOCK_MS).await.expect("free");
            }
            seen.push(name);
        }
        assert!(page.next.is_none() || page.next != after, "a cursor moves on, or a list has no end");
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    for there in ["B", "a", "a-1", "b", "c", "d"] {
        assert_eq!(seen.iter().filter(|seen| *seen == there).count(), 1, "{there}: {seen:?}");
    }
}
