use super::*;
use tokio::time::advance;

const CAPACITY: usize = 4;
const MIN_TIME: Duration = Duration::from_secs(1);

fn slots() -> Arc<ConnectionSlots> {
    Arc::new(ConnectionSlots::new(CAPACITY, MIN_TIME))
}

fn acquire(slots: &Arc<ConnectionSlots>, address: &str) -> ConnectionSlot {
    slots.acquire(address.parse().expect("an address"), None)
}

/// Returns the indices of the evicted connections.
fn evicted(slots: &[ConnectionSlot]) -> Vec<usize> {
    let evicted = slots.iter().enumerate();
    let evicted = evicted.filter(|(_, slot)| slot.evicted.is_cancelled());
    evicted.map(|(index, _)| index).collect()
}

#[test]
fn the_oldest_of_the_address_that_holds_most_is_evicted() {
    let slots = slots();
    let addresses = ["10.0.0.1", "10.0.0.2", "10.0.0.2", "10.0.0.2", "10.0.0.1"];
    let taken = addresses.map(|address| acquire(&slots, address));
    assert_eq!(evicted(&taken), [1]);
    let _one_more = acquire(&slots, "10.0.0.3");
    assert_eq!(evicted(&taken), [0, 1], "the oldest of both that hold two");
}

#[test]
fn the_new_connection_counts_for_its_address_and_stays() {
    let slots = slots();
    let addresses = ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"];
    let others = addresses.map(|address| acquire(&slots, address));
    let new = acquire(&slots, "10.0.0.3");
    assert_eq!(evicted(&others), [2]);
    assert!(!new.evicted.is_cancelled());
}

#[test]
fn of_one_address_those_that_sent_nothing_are_evicted_first() {
    let slots = slots();
    let taken: Vec<_> = (0..CAPACITY).map(|_| acquire(&slots, "10.0.0.1")).collect();
    taken[0].mark_active();
    let _next = acquire(&slots, "10.0.0.1");
    assert_eq!(evicted(&taken), [1]);
}

#[test]
fn trusted_addresses_keep_their_slots_against_any_number_of_others() {
    let slots = slots();
    acquire(&slots, "10.0.0.1").authenticate();
    let trusted = [acquire(&slots, "10.0.0.1"), acquire(&slots, "10.0.0.1")];
    let mut others = Vec::new();
    for number in 0..100 {
        others.push(acquire(&slots, &format!("10.1.0.{number}")));
    }
    assert_eq!(evicted(&trusted), [0; 0]);
    let left = others.iter().filter(|slot| !slot.evicted.is_cancelled());
    assert_eq!(left.count(), CAPACITY - trusted.len());
    // All remaining connections come from trusted addresses, so one of these is evicted.
    drop(others);
    let more: Vec<_> = (0..CAPACITY).map(|_| acquire(&slots, "10.0.0.1")).collect();
    assert_eq!((evicted(&trusted), evicted(&more)), (vec![0, 1], vec![]));
    let unauthenticated = acquire(&slots, "10.0.0.2");
    assert_eq!(evicted(&more), [0]);
    assert!(!unauthenticated.evicted.is_cancelled());
}

/// An API server may open more connections at once than there are slots.
#[tokio::test(start_paused = true)]
async fn connections_from_trusted_addresses_have_a_second() {
    let slots = slots();
    let api_server = "10.0.0.1".parse().expect("an address");
    acquire(&slots, "10.0.0.1").authenticate();
    let unauthenticated = acquire(&slots, "10.0.0.2");
    let trusted: Vec<_> = (1..CAPACITY).map(|_| acquire(&slots, "10.0.0.1")).collect();
    assert_eq!(
        slots.wait(api_server),
        None,
        "the unauthenticated one is evicted"
    );
    drop(unauthenticated);
    assert_eq!(slots.wait(api_server), None, "a slot is free");
    let last = acquire(&slots, "10.0.0.1");
    assert_eq!(slots.wait(api_server), Some(MIN_TIME));
    let began = Instant::now();
    let wait_for_slot = slots.wait_for_slot("10.0.0.1".parse().expect("an address"));
    let release = async {
        tokio::time::sleep(MIN_TIME / 2).await;
        drop(last);
    };
    tokio::join!(wait_for_slot, release);
    assert_eq!(began.elapsed(), MIN_TIME / 2, "a slot is released");
    let _again = acquire(&slots, "10.0.0.1");
    slots
        .wait_for_slot("10.0.0.3".parse().expect("an address"))
        .await;
    assert_eq!(
        began.elapsed(),
        MIN_TIME,
        "the oldest ones have had a second"
    );
    assert_eq!(evicted(&trusted), [0; 0]);
    let _next = acquire(&slots, "10.0.0.3");
    assert_eq!(evicted(&trusted), [0]);
}

#[tokio::test]
async fn every_address_may_be_that_of_an_api_server_until_one_has_called() {
    let slots = slots();
    let first = acquire(&slots, "10.0.0.2");
    assert!(first.may_be_trusted());
    acquire(&slots, "10.0.0.1").authenticate();
    assert!(!first.may_be_trusted() && acquire(&slots, "10.0.0.1").may_be_trusted());
}

#[test]
fn a_place_is_free_once_it_is_dropped_or_trusted() {
    let slots = slots();
    let first = acquire(&slots, "10.0.0.1");
    for _ in 0..CAPACITY {
        drop(acquire(&slots, "10.0.0.1"));
        acquire(&slots, "10.0.0.1").authenticate();
    }
    assert!(!first.evicted.is_cancelled());
    assert_eq!(slots.state.lock().taken.len(), 1);
    assert_eq!(slots.state.lock().authenticated.len(), 1);
}

#[test]
fn trusted_addresses_are_forgotten_in_the_order_of_their_last_use() {
    let slots = slots();
    for number in 0..MAX_TRUSTED {
        acquire(&slots, &format!("10.0.0.{number}")).authenticate();
    }
    for address in ["10.0.0.0", "10.0.1.0"] {
        acquire(&slots, address).authenticate();
    }
    let trusted = |address: &str| {
        let address: IpAddr = address.parse().expect("an address");
        slots.state.lock().trusts(address)
    };
    assert_eq!(
        ["10.0.0.0", "10.0.0.1", "10.0.0.2", "10.0.1.0"].map(trusted),
        [true, false, true, true]
    );
}

/// Then it may be that of a pod.
#[tokio::test(start_paused = true)]
async fn an_address_is_trusted_for_a_day_after_its_last_use() {
    let slots = slots();
    let is_trusted = |address: &str| acquire(&slots, address).may_be_trusted();
    acquire(&slots, "10.0.0.1").authenticate();
    advance(TRUST_DURATION / 2).await;
    acquire(&slots, "10.0.0.2").authenticate();
    assert!(is_trusted("10.0.0.1") && is_trusted("10.0.0.2"));
    advance(TRUST_DURATION / 2).await;
    assert!(!is_trusted("10.0.0.1") && is_trusted("10.0.0.2"));
    let connection = acquire(&slots, "10.0.0.1").authenticate();
    assert!(is_trusted("10.0.0.1"));
    advance(TRUST_DURATION / 2).await;
    acquire(&slots, "10.0.0.2").authenticate();
    connection.renew();
    advance(TRUST_DURATION / 2).await;
    assert!(is_trusted("10.0.0.1"), "it goes on on its connection");
    advance(TRUST_DURATION).await;
    assert!(
        is_trusted("10.0.0.3"),
        "no address is trusted, as at the start"
    );
}

#[test]
fn a_host_with_many_ipv6_addresses_is_one() {
    let network = |address: &str| Network::of(address.parse().expect("an address"));
    assert_eq!(network("2001:db8:1:2::1"), network("2001:db8:1:2:ffff::9"));
    assert_ne!(network("2001:db8:1:2::1"), network("2001:db8:1:3::1"));
    assert_eq!(network("::ffff:10.0.0.1"), network("10.0.0.1"));
    assert_ne!(network("10.0.0.1"), network("10.0.0.2"));
}

/// The pods of a node may have addresses in the /64 network of an API server.
#[test]
fn an_ipv6_address_is_trusted_without_its_network() {
    let slots = slots();
    acquire(&slots, "2001:db8::1").authenticate();
    let api_server = acquire(&slots, "2001:db8::1");
    let flood: Vec<_> = (2..100)
        .map(|number| acquire(&slots, &format!("2001:db8::{number:x}")))
        .collect();
    assert!(!api_server.evicted.is_cancelled() && api_server.may_be_trusted());
    assert!(flood.iter().all(|slot| !slot.may_be_trusted()));
    let newcomer = "2001:db8::1".parse().expect("an address");
    assert_eq!(
        slots.wait(newcomer),
        None,
        "a connection of a pod is evicted"
    );
}

/// Any client can read metrics without authorization, and then open connections without end.
#[test]
fn without_a_minimum_time_no_connection_waits() {
    let slots = Arc::new(ConnectionSlots::new(CAPACITY, Duration::ZERO));
    acquire(&slots, "10.0.0.1").authenticate();
    let taken: Vec<_> = (0..CAPACITY).map(|_| acquire(&slots, "10.0.0.1")).collect();
    let newcomer = "10.0.0.2".parse().expect("an address");
    assert_eq!(slots.wait(newcomer), None);
    let _prometheus = acquire(&slots, "10.0.0.2");
    assert_eq!(evicted(&taken), [0]);
}
